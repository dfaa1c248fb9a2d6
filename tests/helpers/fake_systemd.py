#!/usr/bin/python3
"""fake_systemd.py ADDRESS LOG: org.freedesktop.systemd1 on a bus of its
own, for hosts that another init has booted.

It makes the cgroups that it is asked for, moves processes into them, removes
those that become empty, and forgets their units, as systemd does. Each call is
a line of JSON in LOG. Properties have the types that systemd gives them, and
what is wrong with a call is an error. The job of a unit with "fails" in its
name fails; one with "lingers" is forgotten when somebody else wants its name,
who comes too early. Says "ready" when it has the name.
"""
import json
import os
import re
import signal
import sys

import dbus
import dbus.mainloop.glib
import dbus.service
from gi.repository import GLib

NAME = "org.freedesktop.systemd1"
ROOT = "/sys/fs/cgroup"
OBJECT = "/org/freedesktop/systemd1"
TYPES = {
    "Description": "s", "Slice": "s", "PIDs": "au", "Delegate": "b",
    "DefaultDependencies": "b", "MemoryAccounting": "b", "CPUAccounting": "b",
    "TasksAccounting": "b", "IOAccounting": "b", "BlockIOAccounting": "b",
    "TasksMax": "t", "MemoryMax": "t", "MemoryHigh": "t", "MemoryLow": "t",
    "MemoryMin": "t", "MemorySwapMax": "t", "MemoryLimit": "t",
    "CPUWeight": "t", "CPUShares": "t", "CPUQuotaPerSecUSec": "t",
    "CPUQuotaPeriodUSec": "t", "AllowedCPUs": "ay", "AllowedMemoryNodes": "ay",
    "IOWeight": "t", "BlockIOWeight": "t", "TimeoutStopUSec": "t",
    "CollectMode": "s", "After": "as", "DevicePolicy": "s",
    "DeviceAllow": "a(ss)",
}
LIMITS = set(TYPES) - {"Description", "Slice", "PIDs", "Delegate",
                       "DefaultDependencies"}


class Refused(dbus.DBusException):
    def __init__(self, kind, text):
        super().__init__(text, name=NAME + "." + kind)


def type_of(value):
    if isinstance(value, dbus.Array):
        return "a" + str(value.signature)
    return {dbus.String: "s", dbus.Boolean: "b", dbus.UInt64: "t",
            dbus.UInt32: "u", dbus.Int32: "i"}.get(type(value), "?")


def plain(value):
    if isinstance(value, (dbus.Array, dbus.Struct)):
        return [plain(v) for v in value]
    if isinstance(value, dbus.Boolean):
        return bool(value)
    return str(value) if isinstance(value, str) else int(value)


def hierarchy():
    unified = os.path.join(ROOT, "unified")
    return unified if os.path.exists(unified) else ROOT


def pids_in(path):
    with open(os.path.join(path, "cgroup.procs"), encoding="ascii") as f:
        return [int(line) for line in f]


def remove(path):
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            remove(entry.path)
    os.rmdir(path)


class Unit:
    def __init__(self, slice_name, name):
        # "a-b.slice" is below "a.slice", and "-.slice" is the root.
        parts = [p for p in slice_name[:-len(".slice")].split("-") if p]
        slices = ["-".join(parts[:i + 1]) + ".slice"
                  for i in range(len(parts))]
        self.path = os.path.join(hierarchy(), *slices, name)
        self.slices = slices
        self.state = "inactive"

    def move(self, pids):
        for pid in pids:
            with open(os.path.join(self.path, "cgroup.procs"), "w",
                      encoding="ascii") as f:
                f.write(str(pid))

    def start(self, pids):
        os.makedirs(self.path, exist_ok=True)
        self.move(pids)
        self.state = "active"

    def end(self):
        remove(self.path)
        path = os.path.dirname(self.path)
        for _ in self.slices:
            try:
                os.rmdir(path)
            except OSError:
                break
            path = os.path.dirname(path)


class Units(dbus.service.FallbackObject):
    """Each unit's object; which, the path says."""

    def __init__(self, bus, manager):
        super().__init__(bus, OBJECT + "/unit")
        self.manager = manager

    @dbus.service.method("org.freedesktop.DBus.Properties",
                         in_signature="ss", out_signature="v",
                         path_keyword="path")
    def Get(self, interface, name, path=None):
        escaped = path.rsplit("/", 1)[1]
        unit = re.sub("_(..)", lambda m: chr(int(m[1], 16)), escaped)
        known = self.manager.units.get(unit)
        self.manager.record("Get", interface=str(interface), unit=unit,
                            name=str(name))
        if name == "LoadState":
            return "loaded" if known else "not-found"
        if name == "ActiveState":
            return known.state if known else "inactive"
        if name == "Job":
            waiting = known and known.state == "inactive"
            return dbus.Struct((dbus.UInt32(7 if waiting else 0),
                                dbus.ObjectPath("/")), signature="uo")
        raise Refused("NoSuchProperty", f"no property {name}")


class Manager(dbus.service.Object):
    def __init__(self, bus, log):
        super().__init__(bus, OBJECT)
        self.log = log
        self.units = {}
        GLib.timeout_add(5, self.collect)

    def record(self, method, **what):
        with open(self.log, "a", encoding="utf-8") as f:
            f.write(json.dumps({"method": method, **what}) + "\n")

    def collect(self):
        for name, unit in list(self.units.items()):
            if unit.state != "active":
                continue
            tree = [p for p, _, _ in os.walk(unit.path)]
            if not any(pids_in(p) for p in tree):
                unit.end()
                unit.state = "deactivating"
                if "lingers" not in name:
                    del self.units[name]
        return True

    def find(self, name):
        if name not in self.units:
            raise Refused("NoSuchUnit", f"Unit {name} not loaded.")
        return self.units[name]

    def check(self, properties, allowed):
        for name, value in properties:
            if name not in allowed:
                raise Refused("PropertyReadOnly", f"Cannot set property "
                              f"{name}, or unknown property.")
            if type_of(value) != TYPES[name]:
                raise Refused("InvalidArgs", f"{name} is {TYPES[name]}, not "
                              f"{type_of(value)}")

    @dbus.service.method(NAME + ".Manager", in_signature="ssa(sv)a(sa(sv))",
                         out_signature="o")
    def StartTransientUnit(self, name, mode, properties, aux):
        values = {str(k): plain(v) for k, v in properties}
        self.record("StartTransientUnit", unit=str(name), mode=str(mode),
                    properties=values, aux=len(aux))
        self.check(properties, set(TYPES))
        if name in self.units:
            if self.units[name].state == "deactivating":
                del self.units[name]
            raise Refused("UnitExists", f"Unit {name} was already loaded or "
                          "has a fragment file.")
        if not values.get("PIDs"):
            raise Refused("BadUnitSetting", "Scope has no PIDs.")
        unit = Unit(values.get("Slice", "system.slice"), str(name))
        self.units[str(name)] = unit
        if "fails" in name:
            unit.state = "failed"
        else:
            GLib.idle_add(unit.start, values["PIDs"])
        return dbus.ObjectPath(OBJECT + "/job/7")

    @dbus.service.method(NAME + ".Manager", in_signature="sba(sv)")
    def SetUnitProperties(self, name, runtime, properties):
        self.record("SetUnitProperties", unit=str(name), runtime=bool(runtime),
                    properties={str(k): plain(v) for k, v in properties})
        self.find(name)
        self.check(properties, LIMITS)

    @dbus.service.method(NAME + ".Manager", in_signature="ssau")
    def AttachProcessesToUnit(self, name, subgroup, pids):
        self.record("AttachProcessesToUnit", unit=str(name),
                    subgroup=str(subgroup), pids=plain(pids))
        self.find(name).move(pids)

    @dbus.service.method(NAME + ".Manager", in_signature="ss",
                         out_signature="o")
    def StopUnit(self, name, mode):
        self.record("StopUnit", unit=str(name), mode=str(mode))
        unit = self.find(name)
        if unit.state == "active":
            for path, _, _ in os.walk(unit.path):
                for pid in pids_in(path):
                    os.kill(pid, signal.SIGTERM)
        return dbus.ObjectPath(OBJECT + "/job/8")

    @dbus.service.method(NAME + ".Manager", in_signature="s")
    def ResetFailedUnit(self, name):
        self.record("ResetFailedUnit", unit=str(name))
        if self.find(name).state == "failed":
            del self.units[name]


def main():
    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    bus = dbus.bus.BusConnection(sys.argv[1])
    manager = Manager(bus, sys.argv[2])
    units = Units(bus, manager)
    owner = dbus.service.BusName(NAME, bus)
    print("ready", flush=True)
    GLib.MainLoop().run()
    del units, owner


main()
