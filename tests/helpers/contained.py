"""Executes a command under a filter like that of a container's default profile:
no namespace, no mount, no clone3, no pidfd_getfd."""
import ctypes
import os
import struct
import sys

NUMBERS = {  # unshare, setns, mount, umount2
    "x86_64": (272, 308, 165, 166),
    "aarch64": (97, 268, 40, 39),
    "riscv64": (97, 268, 40, 39),
}
EPERM, ENOSYS = 1, 38
EVERYWHERE = ((435, ENOSYS), (438, EPERM), (428, EPERM), (430, EPERM))


def instruction(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    refused = [(n, EPERM) for n in NUMBERS[os.uname().machine]]
    program = instruction(0x20, 0, 0, 0)  # the number
    for number, error in refused + list(EVERYWHERE):
        program += instruction(0x15, 0, 1, number)
        program += instruction(0x06, 0, 0, 0x00050000 | error)
    program += instruction(0x06, 0, 0, 0x7FFF0000)
    room = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(room))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, fprog, 0, 0):
        sys.exit(os.strerror(ctypes.get_errno()))
    os.execvp(sys.argv[1], sys.argv[1:])


main()
