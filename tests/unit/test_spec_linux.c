#include <sys/mount.h>

#include "spec_cases.h"

#define MAP(in, out, n) "{'containerID':" in ",'hostID':" out ",'size':" n "}"
#define MAPS(u, g) "'uidMappings':[" u "],'gidMappings':[" g "]"
#define USERNS NS("{'type':'user'}")
#define SYSCTL(ns, k) LINUX(NS("{'type':'" ns "'}") ",'sysctl':{'" k "':'1'}")
#define SECCOMP(x) LINUX("'seccomp':{'defaultAction':'SCMP_ACT_ALLOW'," x "}")
#define RULE(x) SECCOMP("'syscalls':[{" x "}]")
#define DEVICE(x) LINUX("'devices':[{" x "}]")
#define POLICY(x) LINUX("'memoryPolicy':{" x "}")

/* clang-format off */
static const struct spec_case namespace_cases[] = {
	{ LINUX("'namespaces':{}"), "linux.namespaces: must be an array" },
	{ LINUX(NS("'pid'")), "linux.namespaces[0]: must be an object" },
	{ LINUX(NS("{}")), "linux.namespaces[0].type: is required" },
	{ LINUX(NS("{'type':'pod'}")), "linux.namespaces[0].type: unknown namespace 'pod'" },
	{ LINUX(NS("{'type':'pid'},{'type':'pid'}")), "linux.namespaces[1].type: duplicate namespace 'pid'" },
	{ LINUX(NS("{'type':'pid'},{'type':'pid','path':'/x'}")), "duplicate namespace 'pid'" },
	{ LINUX(NS("{'type':'pid','path':'ns/pid'}")), "namespaces[0].path: 'ns/pid' is no absolute path" },
	{ LINUX(NS("{'type':'pid','path':1}")), "namespaces[0].path: must be a string" },
	{ LINUX(NS("{'type':'pid','path':''}")), NULL },
};

static const struct spec_case map_cases[] = {
	{ LINUX(USERNS), "linux.uidMappings: a new user namespace needs mappings" },
	{ LINUX(USERNS ",'uidMappings':[" MAP("0", "0", "1") "]"), "linux.gidMappings: both mappings" },
	{ LINUX(USERNS ",'gidMappings':[" MAP("0", "0", "1") "]"), "linux.uidMappings: a new user" },
	{ LINUX(USERNS "," MAPS(MAP("0", "0", "0"), MAP("0", "0", "1"))), "uidMappings[0].size: 0 is out of range" },
	{ LINUX(USERNS "," MAPS("{'containerID':0,'size':1}", "")), "uidMappings[0].hostID: is required" },
	{ LINUX(USERNS "," MAPS(MAP("4294967295", "0", "2"), "")), "uidMappings[0].size: 2 ids do not fit" },
	{ LINUX(USERNS "," MAPS(MAP("-1", "0", "2"), "")), "containerID: -1 is out of range" },
	{ LINUX(USERNS "," MAPS(MAP("0", "0", "2") "," MAP("1", "9", "1"), MAP("0", "0", "1"))),
	  "linux.uidMappings: mappings 0 and 1 overlap" },
	{ LINUX(USERNS "," MAPS(MAP("0", "0", "1"), MAP("0", "5", "2") "," MAP("9", "6", "1"))),
	  "linux.gidMappings: mappings 0 and 1 overlap" },
	{ LINUX(USERNS "," MAPS(MAP("0", "0", "1"), MAP("0", "0", "1"))), NULL },
	{ LINUX(NS("{'type':'user','path':'/x'}")), NULL },
	{ LINUX(MAPS(MAP("0", "0", "1"), MAP("0", "0", "1"))), NULL },
};

static const struct spec_case time_cases[] = {
	{ LINUX("'timeOffsets':{'boottime':{'secs':1}}"), "linux: timeOffsets require a new time namespace" },
	{ LINUX(NS("{'type':'time','path':'/x'}") ",'timeOffsets':{'boottime':{}}"), "require a new time" },
	{ LINUX(NS("{'type':'time'}") ",'timeOffsets':{'realtime':{}}"), "timeOffsets: unknown clock 'realtime'" },
	{ LINUX(NS("{'type':'time'}") ",'timeOffsets':{'monotonic':{'nanosecs':1000000000}}"),
	  "monotonic.nanosecs: 1000000000 is out of range" },
	{ LINUX(NS("{'type':'time'}") ",'timeOffsets':{'monotonic':{'secs':1.5}}"), "must be an integer" },
	{ LINUX(NS("{'type':'time'}") ",'timeOffsets':{'monotonic':{'secs':-5,'nanosecs':1}}"), NULL },
};

static const struct spec_case device_cases[] = {
	{ DEVICE("'type':'c','major':1,'minor':3"), "linux.devices[0].path: is required" },
	{ DEVICE("'path':'/dev/x','major':1,'minor':3"), "devices[0].type: is required" },
	{ DEVICE("'path':'dev/x','type':'c','major':1,'minor':3"), "path: 'dev/x' is no absolute path" },
	{ DEVICE("'path':'/dev/x','type':'z','major':1,'minor':3"), "type: unknown device type 'z'" },
	{ DEVICE("'path':'/dev/x','type':'','major':1,'minor':3"), "unknown device type ''" },
	{ DEVICE("'path':'/dev/x','type':'c','major':1"), "devices[0]: major and minor are required" },
	{ DEVICE("'path':'/dev/x','type':'c','major':4096,'minor':1"), "major: 4096 is out of range" },
	{ DEVICE("'path':'/dev/x','type':'c','major':-1,'minor':1"), "major: -1 is out of range" },
	{ DEVICE("'path':'/dev/x','type':'c','major':1,'minor':1048576"), "minor: 1048576 is out" },
	{ DEVICE("'path':'/dev/x','type':'c','major':1,'minor':1,'fileMode':65536"), "fileMode: 65536 is out" },
	{ DEVICE("'path':'/dev/x','type':'c','major':1,'minor':1,'uid':-1"), "uid: -1 is out" },
	{ DEVICE("'path':'/dev/x','type':'p'"), NULL },
};

static const struct spec_case other_cases[] = {
	{ LINUX("'rootfsPropagation':'bogus'"), "linux.rootfsPropagation: unknown propagation 'bogus'" },
	{ LINUX("'rootfsPropagation':''"), NULL },
	{ LINUX("'rootfsPropagation':'rslave'"), NULL },
	{ LINUX("'maskedPaths':['proc/kcore']"), "linux.maskedPaths[0]: 'proc/kcore' is no absolute path" },
	{ LINUX("'maskedPaths':['/a','']"), "linux.maskedPaths[1]: must not be empty" },
	{ LINUX("'readonlyPaths':['/a','b']"), "linux.readonlyPaths[1]: 'b' is no absolute path" },
	{ LINUX("'cgroupsPath':'/a/../b'"), "linux.cgroupsPath: '/a/../b' must not contain '..'" },
	{ LINUX("'cgroupsPath':'..'"), "must not contain '..'" },
	{ LINUX("'cgroupsPath':'/a..b/..c/d..'"), NULL },
	{ LINUX("'cgroupsPath':1"), "linux.cgroupsPath: must be a string" },
	{ LINUX("'personality':{}"), "linux.personality.domain: is required" },
	{ LINUX("'personality':{'domain':'BSD'}"), "unknown personality domain 'BSD'" },
	{ LINUX("'personality':{'domain':'LINUX32','flags':['X']}"), "personality.flags: must be empty" },
	{ LINUX("'personality':{'domain':'LINUX32','flags':[]}"), NULL },
	{ LINUX("'intelRdt':{'closID':1}"), "linux.intelRdt.closID: must be a string" },
	{ LINUX("'intelRdt':[]"), "linux.intelRdt: must be an object" },
	{ LINUX("'mountLabel':{}"), "linux.mountLabel: must be a string" },
	{ POLICY("'nodes':'0'"), "linux.memoryPolicy.mode: is required" },
	{ POLICY("'mode':'MPOL_FOO'"), "unknown memory policy 'MPOL_FOO'" },
	{ POLICY("'mode':'MPOL_BIND'"), "memoryPolicy.nodes: is required" },
	{ POLICY("'mode':'MPOL_BIND','nodes':'0;1'"), "nodes: '0;1' is no list" },
	{ POLICY("'mode':'MPOL_LOCAL','nodes':'0'"), "takes neither nodes nor flags" },
	{ POLICY("'mode':'MPOL_BIND','nodes':'0','flags':['X']"), "flags[0]: unknown memory policy flag 'X'" },
	{ POLICY("'mode':'MPOL_BIND','nodes':'0','flags':['MPOL_F_STATIC_NODES','MPOL_F_RELATIVE_NODES']"),
	  "MPOL_F_STATIC_NODES excludes" },
	{ POLICY("'mode':'MPOL_PREFERRED'"), NULL },
	{ LINUX("'netDevices':{'eth0':{}}"), "netDevices require a private network namespace" },
	{ LINUX(NS("{'type':'network'}") ",'netDevices':{'eth0':{'name':'a/b'}}"),
	  "netDevices.eth0.name: 'a/b' is no name of a network interface" },
	{ LINUX(NS("{'type':'network'}") ",'netDevices':{'0123456789abcdef':{}}"), "is no name of a network" },
	{ LINUX(NS("{'type':'network'}") ",'netDevices':{'..':{}}"), "is no name of a network" },
	{ LINUX(NS("{'type':'network'}") ",'netDevices':{'a':{'name':'x'},'b':{'name':'x'}}"),
	  "netDevices: two devices get the name 'x'" },
	{ LINUX(NS("{'type':'network'}") ",'netDevices':{'a':{'name':'x%d'},'b':{'name':'x%d'},'c':{}}"), NULL },
};

static const struct spec_case sysctl_cases[] = {
	{ LINUX("'sysctl':{'net.core.somaxconn':'1'}"),
	  "linux.sysctl['net.core.somaxconn']: needs a private network namespace" },
	{ LINUX(NS("{'type':'network','path':'/proc/self/ns/net'}") ",'sysctl':{'net.core.somaxconn':'1'}"),
	  "needs a private network namespace" },
	{ LINUX("'sysctl':{'net.core.somaxconn':1}"), "must be a string, not a number" },
	{ SYSCTL("ipc", "vm.swappiness"), "linux.sysctl['vm.swappiness']: is not in a separate kernel namespace" },
	{ SYSCTL("ipc", "kernel.core_pattern"), "is not in a separate kernel namespace" },
	{ SYSCTL("ipc", "kernel.shm_rmid_forced+kernel.core_pattern"), "is not in a separate kernel namespace" },
	{ SYSCTL("ipc", "kernel.shm_rmid_forced=1\\nkernel.core_pattern"), "is not in a separate kernel namespace" },
	{ SYSCTL("ipc", "kernel.shmmax/../core_pattern"), "linux.sysctl" },
	{ SYSCTL("network", "net/../kernel/core_pattern"), "is no valid name" },
	{ SYSCTL("network", "net.ipv4..x"), "is no valid name" },
	{ SYSCTL("network", "net."), "is no valid name" },
	{ SYSCTL("network", "net"), "is not in a separate kernel namespace" },
	{ SYSCTL("network", "network.x"), "is not in a separate kernel namespace" },
	{ SYSCTL("network", "/net/core/somaxconn"), "is no valid name" },
	{ SYSCTL("network", "kernel.msgmax"), "needs a private ipc namespace" },
	{ SYSCTL("network", "fs.mqueue.msg_max"), "needs a private ipc namespace" },
	{ SYSCTL("ipc", "kernel.domainname"), "needs a private uts namespace" },
	{ SYSCTL("uts", "kernel.hostname"), "conflicts with the property 'hostname'" },
	{ SYSCTL("uts", "kernel.domainname"), NULL },
	{ DOC("'domainname':'d','linux':{" NS("{'type':'uts'}") ",'sysctl':{'kernel.domainname':'1'}}"), "conflicts with the property 'domainname'" },
	{ DOC("'domainname':'d','linux':{" NS("{'type':'uts'}") ",'sysctl':{'kernel.domainname':'d'}}"), NULL },
	{ SYSCTL("ipc", "kernel.sem"), NULL },
	{ SYSCTL("ipc", "fs/mqueue/msg_max"), NULL },
	{ LINUX(NS("{'type':'network'}") ",'sysctl':{'net.a.b':'1','net/a/b':'2'}"), "'net/a/b' is given twice" },
};

static const struct spec_case seccomp_cases[] = {
	{ LINUX("'seccomp':{}"), "linux.seccomp.defaultAction: is required" },
	{ LINUX("'seccomp':{'defaultAction':'SCMP_ACT_FOO'}"), "defaultAction: unknown seccomp action 'SCMP_ACT_FOO'" },
	{ LINUX("'seccomp':{'defaultAction':'SCMP_ACT_NOTIFY','listenerPath':'/s'}"),
	  "defaultAction: SCMP_ACT_NOTIFY cannot be used as default action" },
	{ SECCOMP("'defaultErrnoRet':1"), "defaultErrnoRet: the action takes none" },
	{ SECCOMP("'architectures':['SCMP_ARCH_VAX']"), "architectures[0]: unknown seccomp architecture" },
	{ SECCOMP("'flags':['SECCOMP_FILTER_FLAG_NEW_LISTENER']"), "flags[0]: unknown seccomp flag" },
	{ SECCOMP("'listenerMetadata':'x'"), "listenerMetadata: must not be given without listenerPath" },
	{ SECCOMP("'listenerPath':'sock'"), "listenerPath: 'sock' is no absolute path" },
	{ RULE("'action':'SCMP_ACT_ALLOW'"), "syscalls[0].names: is required" },
	{ RULE("'names':[],'action':'SCMP_ACT_ALLOW'"), "syscalls[0].names: must not be empty" },
	{ RULE("'names':[''],'action':'SCMP_ACT_ALLOW'"), "syscalls[0].names[0]: must not be empty" },
	{ RULE("'names':['a']"), "syscalls[0].action: is required" },
	{ RULE("'names':['a'],'action':'X'"), "syscalls[0].action: unknown seccomp action 'X'" },
	{ RULE("'names':['a'],'action':'SCMP_ACT_ALLOW','errnoRet':1"), "syscalls[0].errnoRet: the action takes none" },
	{ RULE("'names':['a'],'action':'SCMP_ACT_KILL','errnoRet':1"), "errnoRet: the action takes none" },
	{ RULE("'names':['a'],'action':'SCMP_ACT_ERRNO','errnoRet':4095"), "errnoRet: 4095 is out of range" },
	{ RULE("'names':['a'],'action':'SCMP_ACT_TRACE','errnoRet':65536"), "errnoRet: 65536 is out of range" },
	{ RULE("'names':['a'],'action':'SCMP_ACT_NOTIFY'"), "seccomp.listenerPath: is required for SCMP_ACT_NOTIFY" },
	{ SECCOMP("'listenerPath':'/s','syscalls':[{'names':['read','write'],'action':'SCMP_ACT_NOTIFY'}]"),
	  "syscalls: SCMP_ACT_NOTIFY cannot be used for the write syscall" },
	{ RULE("'names':['a'],'action':'SCMP_ACT_ALLOW','args':[{'index':6,'value':1,'op':'SCMP_CMP_EQ'}]"),
	  "syscalls[0].args[0].index: 6 is out of range (0 to 5)" },
	{ RULE("'names':['a'],'action':'SCMP_ACT_ALLOW','args':[{'index':0,'value':1}]"), "args[0].op: is required" },
	{ RULE("'names':['a'],'action':'SCMP_ACT_ALLOW','args':[{'index':0,'op':'SCMP_CMP_EQ'}]"),
	  "args[0].value: is required" },
	{ RULE("'names':['a'],'action':'SCMP_ACT_ALLOW','args':[{'index':0,'value':1,'op':'=='}]"),
	  "op: unknown seccomp operator '=='" },
	{ SECCOMP("'listenerPath':'/s','listenerMetadata':'m'"), NULL },
	{ RULE("'names':['no_such_call'],'action':'SCMP_ACT_TRACE','errnoRet':65535"), NULL },
};
/* clang-format on */

static void namespaces_are_checked(void **state)
{
	CHECK_CASES(namespace_cases);
}

static void maps_are_checked(void **state)
{
	struct spec_log log = { "" };
	auto_ptr(spec_free) struct spec *s =
		spec_try(LINUX(MAPS(MAP("0", "0", "1"), "")), &log, NULL);

	CHECK_CASES(map_cases);
	assert_non_null(s);
	assert_true(idmap_is_empty(&s->idmap));
	assert_non_null(strstr(log.text, "there is no user namespace"));
}

static void time_offsets_are_checked(void **state)
{
	auto_ptr(spec_free) struct spec *s = spec_good(
		LINUX(NS("{'type':'time'}") ",'timeOffsets':{'boottime':"
					    "{'secs':-7,'nanosecs':9}}"));

	CHECK_CASES(time_cases);
	assert_true(s->time_boottime.given && !s->time_monotonic.given);
	assert_int_equal(s->time_boottime.secs, -7);
	assert_int_equal(s->time_boottime.nanosecs, 9);
}

static void devices_are_checked(void **state)
{
	auto_ptr(spec_free) struct spec *s =
		spec_good(LINUX("'devices':[{'path':'/d','type':'u','major':10,"
				"'minor':229,'fileMode':8630,'uid':3},"
				"{'path':'/p','type':'p'}]"));

	CHECK_CASES(device_cases);
	assert_int_equal(s->n_devices, 2);
	assert_int_equal(s->devices[0].type, 'c');
	assert_int_equal(s->devices[0].minor, 229);
	assert_true(s->devices[0].has_mode);
	assert_int_equal(s->devices[0].mode, 0666);
	assert_int_equal(s->devices[0].uid, 3);
	assert_false(s->devices[1].has_mode);
}

static void the_rest_is_checked(void **state)
{
	auto_ptr(spec_free) struct spec *s = spec_good(
		LINUX("'rootfsPropagation':'rslave','intelRdt':{'closID':'x',"
		      "'schemata':['a']},'personality':{'domain':'LINUX32'},"
		      "'memoryPolicy':{'mode':'MPOL_BIND','nodes':'0-1',"
		      "'flags':['MPOL_F_STATIC_NODES']},"
		      "'maskedPaths':['/a'],'cgroupsPath':''"));

	CHECK_CASES(other_cases);
	assert_true(s->root_propagation == (MS_SLAVE | MS_REC));
	assert_true(s->has_intel_rdt);
	assert_true(s->has_personality && s->personality == 8);
	assert_true(s->memory_policy.given && s->memory_policy.mode == 2);
	assert_int_equal(s->memory_policy.flags, 1 << 15);
	assert_int_equal(s->masked_paths.n, 1);
	assert_null(s->cgroups_path);
}

static void sysctls_are_checked(void **state)
{
	auto_ptr(spec_free) struct spec *s = spec_good(
		LINUX(NS("{'type':'network'}") ",'sysctl':{"
					       "'net.ipv4.conf.eth0/1.x':'1',"
					       "'net/ipv4/conf/e.1/x':'2'}"));

	CHECK_CASES(sysctl_cases);
	assert_int_equal(s->n_sysctls, 2);
	assert_string_equal(s->sysctls[0].key, "net/ipv4/conf/e.1/x");
	assert_string_equal(s->sysctls[0].value, "2");
	assert_string_equal(s->sysctls[1].key, "net/ipv4/conf/eth0.1/x");
}

static void seccomp_is_checked(void **state)
{
	auto_ptr(spec_free) struct spec *s = spec_good(
		LINUX("'seccomp':{'defaultAction':'SCMP_ACT_ERRNO',"
		      "'defaultErrnoRet':38,'architectures':["
		      "'SCMP_ARCH_X86_64'],'flags':["
		      "'SECCOMP_FILTER_FLAG_LOG'],'syscalls':[{'names':['a',"
		      "'b'],'action':'SCMP_ACT_KILL_PROCESS','args':["
		      "{'index':5,'value':18446744073709551615,'valueTwo':7,"
		      "'op':'SCMP_CMP_MASKED_EQ'}]}]}"));
	const struct spec_seccomp *p = s->seccomp;
	struct spec_seccomp_said said;

	CHECK_CASES(seccomp_cases);
	assert_int_equal(p->default_action, 0x00050000);
	assert_true(p->has_default_errno && p->default_errno == 38);
	assert_string_equal(p->architectures.v[0], "SCMP_ARCH_X86_64");
	assert_string_equal(p->flags.v[0], "SECCOMP_FILTER_FLAG_LOG");
	assert_int_equal(p->n_rules, 1);
	assert_true(p->rules[0].action == 0x80000000U);
	assert_false(p->rules[0].has_errno);
	assert_int_equal(p->rules[0].names.n, 2);
	assert_int_equal(p->rules[0].args[0].index, 5);
	assert_true(p->rules[0].args[0].value == UINT64_MAX);
	assert_int_equal(p->rules[0].args[0].value_two, 7);
	assert_int_equal(p->rules[0].args[0].op, 7);
	spec_seccomp_look_up(p, "b", &said);
	assert_string_equal(said.action, "SCMP_ACT_ERRNO");
	assert_true(said.is_default && said.looks_at_args);
	assert_int_equal(said.errno_ret, 38);
	spec_seccomp_look_up(p, "c", &said);
	assert_false(said.looks_at_args);
}

static void too_much_is_refused(void **state)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct error err = ERROR_INIT;

	buf_add_str(&b, "{" ROOT ",'linux':{" USERNS ",'uidMappings':[");
	for (int i = 0; i < 341; i++)
		buf_printf(&b, "%s{'containerID':%d,'hostID':%d,'size':1}",
			   i ? "," : "", i, i);
	buf_add_str(&b, "]}}");
	assert_null(spec_try(buf_str(&b), NULL, &err));
	assert_string_equal(err.msg, "config.json: linux.uidMappings: has 341 "
				     "elements, at most 340 are allowed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(namespaces_are_checked),
		cmocka_unit_test(maps_are_checked),
		cmocka_unit_test(time_offsets_are_checked),
		cmocka_unit_test(devices_are_checked),
		cmocka_unit_test(the_rest_is_checked),
		cmocka_unit_test(sysctls_are_checked),
		cmocka_unit_test(seccomp_is_checked),
		cmocka_unit_test(too_much_is_refused),
	};

	return RUN_TESTS(tests);
}
