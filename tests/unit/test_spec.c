#include "spec/spec.h"

#include "spec_cases.h"

/* clang-format off */
static const struct spec_case general_cases[] = {
	{ "[]", "config.json: must be an object, not an array" },
	{ "{}", "config.json: ociVersion: is required but missing" },
	{ "{'ociVersion':'1.0.0'}", "config.json: root: is required but missing" },
	{ "{'ociVersion':'1.0.0','root':null}", "root: is required" },
	{ "{'ociVersion':'1.0.0','root':{}}", "root.path: is required" },
	{ "{'ociVersion':'1.0.0','root':{'path':''}}", "root.path: must not be empty" },
	{ "{'ociVersion':'1.0.0','root':{'path':1}}", "root.path: must be a string, not a number" },
	{ "{'ociVersion':'1.0.0','root':{'path':'r','readonly':'yes'}}",
	  "root.readonly: must be true or false, not a string" },
	{ "{'ociVersion':'1.0.0','root':'rootfs'}", "root: must be an object, not a string" },
	{ "{'ociVersion':'1.0.0','root':{'path':'r\\u0000s'}}", "NUL" },
	{ "{'ociVersion':'1.0.0','root':{'path':'r'},'root':{'path':'r'}}", "twice" },
	{ "{'ociVersion':'1.0.0','root':{'path':'r'}", "no valid JSON" },
	{ "{'ociVersion':'1.0.0','root':{'path':'r'}} x", "no valid JSON" },
	{ DOC("'zzz':1,'windows':[]"), NULL },
	{ DOC("'process':null,'linux':null,'mounts':null,'hooks':null"), NULL },
	{ "{'ociVersion':'1.0.0','root':{'path':'r','zzz':[]},'linux':{'zzz':1}}", NULL },
	{ DOC("'hostname':'a'"), "config.json: hostname: requires a private UTS namespace" },
	{ DOC("'domainname':'a'"), "domainname: requires a private UTS namespace" },
	{ DOC("'hostname':'a','linux':{" NS("{'type':'uts','path':'/proc/self/ns/uts'}") "}"),
	  "hostname: requires a private UTS" },
	{ DOC("'hostname':'','domainname':''"), NULL },
	{ DOC("'hostname':['a']"), "hostname: must be a string, not an array" },
	{ DOC("'hostname':'0123456789012345678901234567890123456789012345678901234567890123456'"),
	  "hostname: is longer than 64 bytes" },
	{ DOC("'hostname':'a','domainname':'b','linux':{" NS("{'type':'uts'}") "}"), NULL },
	{ DOC("'annotations':{'a':1}"), "annotations.a: must be a string" },
	{ DOC("'annotations':{'':'x'}"), "annotations: has an empty name" },
	{ DOC("'annotations':[]"), "annotations: must be an object" },
	{ DOC("'annotations':{'a.b/c':null}"), "annotations['a.b/c']: must be a string, not null" },
};

static const struct spec_case version_cases[] = {
	{ "{'ociVersion':'1.0','root':{'path':'r'}}", "ociVersion: '1.0' is no SemVer version" },
	{ "{'ociVersion':'abc','root':{'path':'r'}}", "'abc' is no SemVer version" },
	{ "{'ociVersion':'','root':{'path':'r'}}", "'' is no SemVer version" },
	{ "{'ociVersion':'1.0.00','root':{'path':'r'}}", "no SemVer" },
	{ "{'ociVersion':'01.0.0','root':{'path':'r'}}", "no SemVer" },
	{ "{'ociVersion':'1.0.0-','root':{'path':'r'}}", "no SemVer" },
	{ "{'ociVersion':'1.0.0-a..b','root':{'path':'r'}}", "no SemVer" },
	{ "{'ociVersion':'1.0.0-01','root':{'path':'r'}}", "no SemVer" },
	{ "{'ociVersion':'1.0.0+','root':{'path':'r'}}", "no SemVer" },
	{ "{'ociVersion':'1.0.0 ','root':{'path':'r'}}", "no SemVer" },
	{ "{'ociVersion':'v1.0.0','root':{'path':'r'}}", "no SemVer" },
	{ "{'ociVersion':'2.0.0','root':{'path':'r'}}", "ociVersion: unknown version '2.0.0'" },
	{ "{'ociVersion':'0.5.0','root':{'path':'r'}}", "unknown version '0.5.0'" },
	{ "{'ociVersion':'10.0.0','root':{'path':'r'}}", "unknown version '10.0.0'" },
	{ "{'ociVersion':1,'root':{'path':'r'}}", "ociVersion: must be a string" },
	{ "{'ociVersion':'1.0.0','root':{'path':'r'}}", NULL },
	{ "{'ociVersion':'1.0.2-dev','root':{'path':'r'}}", NULL },
	{ "{'ociVersion':'1.1.0-rc.2+build.01','root':{'path':'r'}}", NULL },
	{ "{'ociVersion':'1.3.0','root':{'path':'r'}}", NULL },
	{ "{'ociVersion':'1.4.0','root':{'path':'r'}}", NULL },
};

static const struct spec_case process_cases[] = {
	{ DOC("'process':{}"), "process.cwd: is required but missing" },
	{ DOC("'process':{'cwd':'/'}"), "process.args: is required but missing" },
	{ DOC("'process':{'cwd':'/','args':[]," USER "}"), "process.args: must not be empty" },
	{ DOC("'process':{'cwd':'/','args':['']," USER "}"), "process.args: has an empty program name" },
	{ DOC("'process':{'cwd':'/','args':[1]," USER "}"), "process.args[0]: must be a string, not a number" },
	{ DOC("'process':{'cwd':'/','args':['a',null]," USER "}"), "process.args[1]: must be a string, not null" },
	{ DOC("'process':{'cwd':'/','args':'sh'," USER "}"), "process.args: must be an array" },
	{ DOC("'process':{'cwd':'tmp','args':['a']," USER "}"), "process.cwd: 'tmp' is no absolute path" },
	{ DOC("'process':{'cwd':'','args':['a']," USER "}"), "process.cwd: must not be empty" },
	{ DOC("'process':{'cwd':'/','args':['a'],'user':{'uid':-1,'gid':0}}"), "process.user.uid: -1 is out of range" },
	{ DOC("'process':{'cwd':'/','args':['a'],'user':{'uid':4294967295,'gid':0}}"),
	  "process.user.uid: 4294967295 is out of range (0 to 4294967294)" },
	{ DOC("'process':{'cwd':'/','args':['a'],'user':{'uid':4294967296,'gid':0}}"), "uid: 4294967296 is out of range" },
	{ DOC("'process':{'cwd':'/','args':['a'],'user':{'uid':18446744073709551616,'gid':0}}"), "is out of range" },
	{ DOC("'process':{'cwd':'/','args':['a'],'user':{'uid':1.5,'gid':0}}"), "must be an integer, not 1.5" },
	{ DOC("'process':{'cwd':'/','args':['a'],'user':{'uid':'0','gid':0}}"), "uid: must be a number, not a string" },
	{ DOC("'process':{'cwd':'/','args':['a'],'user':{'uid':0,'gid':0,'umask':512}}"), "umask: 512 is out of range (0 to 511)" },
	{ DOC("'process':{'cwd':'/','args':['a'],'user':{'uid':0,'gid':0,'additionalGids':[1,-1]}}"),
	  "process.user.additionalGids[1]: -1 is out of range" },
	{ PROCESS("'terminal':'yes'"), "process.terminal: must be true or false, not a string" },
	{ PROCESS("'consoleSize':{'height':1}"), "process.consoleSize.width: is required" },
	{ PROCESS("'consoleSize':{'height':65536,'width':1}"), "height: 65536 is out of range (0 to 65535)" },
	{ PROCESS("'env':['A=1','B']"), "process.env[1]: 'B' is not of the form NAME=VALUE" },
	{ PROCESS("'env':['=1']"), "process.env[0]: '=1' has an empty name" },
	{ PROCESS("'env':[1]"), "process.env[0]: must be a string" },
	{ PROCESS("'rlimits':[{'type':'RLIMIT_CPU','soft':1,'hard':1},{'type':'RLIMIT_FOO'}]"),
	  "config.json: process.rlimits[1].type: unknown rlimit 'RLIMIT_FOO'" },
	{ PROCESS("'rlimits':[{'type':'RLIMIT_CPU','soft':1,'hard':1},{'type':'RLIMIT_CPU','soft':1,'hard':1}]"),
	  "process.rlimits[1].type: duplicate rlimit 'RLIMIT_CPU'" },
	{ PROCESS("'rlimits':[{'type':'RLIMIT_CPU','soft':1}]"), "rlimits[0].hard: is required" },
	{ PROCESS("'rlimits':[{'type':'RLIMIT_CPU','soft':2,'hard':1}]"), "rlimits[0].soft: 2 is above hard (1)" },
	{ PROCESS("'rlimits':[{'type':'RLIMIT_CPU','soft':-1,'hard':1}]"), "rlimits[0].soft: -1 is out of range" },
	{ PROCESS("'rlimits':{}"), "process.rlimits: must be an array" },
	{ PROCESS("'capabilities':[]"), "process.capabilities: must be an object" },
	{ PROCESS("'capabilities':{'bounding':'CAP_KILL'}"), "capabilities.bounding: must be an array" },
	{ PROCESS("'capabilities':{'bounding':[1]}"), "capabilities.bounding[0]: must be a string" },
	{ PROCESS("'noNewPrivileges':1"), "noNewPrivileges: must be true or false" },
	{ PROCESS("'oomScoreAdj':2000"), "oomScoreAdj: 2000 is out of range (-1000 to 1000)" },
	{ PROCESS("'oomScoreAdj':-1000"), NULL },
	{ PROCESS("'apparmorProfile':1"), "apparmorProfile: must be a string" },
	{ PROCESS("'execCPUAffinity':{'initial':'0-3,x'}"), "execCPUAffinity.initial: '0-3,x' is no list of CPUs" },
	{ PROCESS("'execCPUAffinity':{'final':'3-1'}"), "final: '3-1' is no list" },
	{ PROCESS("'execCPUAffinity':{'final':'1,'}"), "final: '1,' is no list" },
	{ PROCESS("'execCPUAffinity':{'initial':'0','final':'0-3,7'}"), NULL },
};

static const struct spec_case scheduler_cases[] = {
	{ PROCESS("'scheduler':{}"), "process.scheduler.policy: is required" },
	{ PROCESS("'scheduler':{'policy':'SCHED_FOO'}"), "unknown scheduling policy 'SCHED_FOO'" },
	{ PROCESS("'scheduler':{'policy':'SCHED_OTHER','nice':20}"), "nice: 20 is out of range" },
	{ PROCESS("'scheduler':{'policy':'SCHED_OTHER','priority':1}"), "scheduler.priority: is only for" },
	{ PROCESS("'scheduler':{'policy':'SCHED_OTHER','runtime':1}"), "only for SCHED_DEADLINE" },
	{ PROCESS("'scheduler':{'policy':'SCHED_OTHER','flags':['X']}"), "flags[0]: unknown scheduling flag 'X'" },
	{ PROCESS("'scheduler':{'policy':'SCHED_DEADLINE','runtime':1,'deadline':2,'period':3,"
		  "'flags':['SCHED_FLAG_RECLAIM']}"), NULL },
	{ PROCESS("'ioPriority':{'class':'IOPRIO_CLASS_BE','priority':8}"), "priority: 8 is out of range (0 to 7)" },
	{ PROCESS("'ioPriority':{'class':'X','priority':1}"), "unknown I/O priority class 'X'" },
	{ PROCESS("'ioPriority':{'priority':1}"), "ioPriority.class: is required" },
	{ PROCESS("'ioPriority':{'class':'IOPRIO_CLASS_IDLE','priority':0}"), NULL },
};

static const struct spec_case hook_cases[] = {
	{ DOC("'hooks':[]"), "hooks: must be an object" },
	{ DOC("'hooks':{'prestart':{}}"), "hooks.prestart: must be an array" },
	{ HOOK("'args':['a']"), "hooks.poststop[0].path: is required" },
	{ HOOK("'path':'bin/true'"), "hooks.poststop[0].path: 'bin/true' is no absolute path" },
	{ HOOK("'path':''"), "path: must not be empty" },
	{ HOOK("'path':'/bin/true','timeout':0"), "timeout: 0 is out of range (1 to" },
	{ HOOK("'path':'/bin/true','timeout':-1"), "timeout: -1 is out of range" },
	{ HOOK("'path':'/bin/true','env':['A']"), "env[0]: 'A' is not of the form" },
	{ HOOK("'path':'/bin/true','args':[1]"), "args[0]: must be a string" },
	{ HOOK("'path':'/bin/true','args':['a'],'env':['A=b'],'timeout':1"), NULL },
};

static const struct spec_case branch_cases[] = {
	{ ANNOTATION("io.sandlock.branch", "maybe"),
	  "annotations['io.sandlock.branch']: 'maybe' is neither 'yes' nor 'none'" },
	{ ANNOTATION("io.sandlock.branch.on-exit", "merge"), "'merge' is none of 'commit', 'abort', 'keep', 'defer'" },
	{ ANNOTATION("io.sandlock.branch.on-error", ""), "'' is none of" },
	{ ANNOTATION("io.sandlock.branch.storage", "store"), "'store' is no absolute path" },
	{ ANNOTATION("io.sandlock.branch.quota", "0"), "'0' is no size" },
	{ ANNOTATION("io.sandlock.branch.quota", ""), "'' is no size" },
	{ ANNOTATION("io.sandlock.branch.quota", "M"), "'M' is no size" },
	{ ANNOTATION("io.sandlock.branch.quota", "-1"), "'-1' is no size" },
	{ ANNOTATION("io.sandlock.branch.quota", "1MB"), "'1MB' is no size" },
	{ ANNOTATION("io.sandlock.branch.quota", "99999999999999999999"), "is no size" },
	{ ANNOTATION("io.sandlock.branch.quota", "18014398509481984K"), "is no size" },
	{ ANNOTATION("io.sandlock.branch.durable", "1"), "'1' is neither 'true' nor 'false'" },
	{ DOC("'annotations':{'io.sandlock.branch':'none','io.sandlock.branch.on-exit':'commit'}"),
	  "is 'none', but other annotations" },
	{ ANNOTATION("io.sandlock.landlock", "true"), "'true' is neither 'yes' nor 'no'" },
	{ ANNOTATION("io.sandlock.landlock", "yes"), NULL },
	{ ANNOTATION("io.sandlock.landlock.disabled", "net-tcp,all"), "'all' is no protection" },
	{ ANNOTATION("io.sandlock.landlock.disabled", "net-tcp,fs-refer"), NULL },
	{ ANNOTATION("io.sandlock.landlock.allow-degraded", "x"), "'x' is no protection" },
	{ ANNOTATION("io.sandlock.other", "x"), NULL },
	{ ANNOTATION("org.example", "x"), NULL },
};
/* clang-format on */

static void the_document_is_checked(void **state)
{
	CHECK_CASES(general_cases);
}

static void the_version_is_checked(void **state)
{
	struct spec_log log = { "" };
	auto_ptr(spec_free) struct spec *s = NULL;

	CHECK_CASES(version_cases);
	s = spec_try("{'ociVersion':'1.4.0','root':{'path':'r'}}", &log, NULL);
	assert_non_null(s);
	assert_non_null(strstr(log.text, "newer than 1.3.0"));
}

static void the_process_is_checked(void **state)
{
	CHECK_CASES(process_cases);
}

static void the_scheduler_is_checked(void **state)
{
	CHECK_CASES(scheduler_cases);
}

static void hooks_are_checked(void **state)
{
	CHECK_CASES(hook_cases);
}

static void branch_annotations_are_checked(void **state)
{
	CHECK_CASES(branch_cases);
}

static void paths_are_made_absolute(void **state)
{
	auto_ptr(spec_free) struct spec *a = spec_good("{" ROOT "}");
	auto_ptr(spec_free) struct spec *b =
		spec_good("{'ociVersion':'1.0.0','root':{'path':'/x/../y'}}");

	assert_string_equal(a->root_path, "/bundle/rootfs");
	assert_string_equal(a->bundle, "/bundle");
	assert_string_equal(b->root_path, "/x/../y");
	assert_false(a->has_process);
}

static void a_process_is_read(void **state)
{
	auto_ptr(spec_free) struct spec *s = spec_good(
		DOC("'process':{'terminal':true,'consoleSize':{'height':24,"
		    "'width':80},'cwd':'/w','args':['a','b'],"
		    "'env':['A=1','B=2','A=3','AB=','A=4'],"
		    "'user':{'uid':1000,'gid':4294967294,'umask':18,"
		    "'additionalGids':[5,6]},"
		    "'rlimits':[{'type':'RLIMIT_NOFILE','soft':1,"
		    "'hard':18446744073709551615}],"
		    "'capabilities':{'bounding':['CAP_CHOWN','cap_kill'],"
		    "'ambient':null},'noNewPrivileges':true,'oomScoreAdj':0,"
		    "'scheduler':{'policy':'SCHED_BATCH','nice':-5},"
		    "'ioPriority':{'class':'IOPRIO_CLASS_IDLE','priority':7},"
		    "'apparmorProfile':'p','selinuxLabel':''}"));
	const struct spec_process *p = &s->process;

	assert_true(s->has_process && p->terminal);
	assert_int_equal(p->console_height, 24);
	assert_int_equal(p->console_width, 80);
	assert_string_equal(p->cwd, "/w");
	assert_int_equal(p->args.n, 2);
	assert_string_equal(p->args.v[1], "b");
	assert_null(p->args.v[2]);
	assert_int_equal(p->env.n, 3);
	assert_string_equal(p->env.v[0], "B=2");
	assert_string_equal(p->env.v[1], "AB=");
	assert_string_equal(p->env.v[2], "A=4");
	assert_null(p->env.v[3]);
	assert_int_equal(p->uid, 1000);
	assert_int_equal(p->gid, 4294967294);
	assert_true(p->has_umask && p->umask == 022);
	assert_int_equal(p->n_additional_gids, 2);
	assert_int_equal(p->additional_gids[1], 6);
	assert_true(p->rlimits[0].hard == UINT64_MAX);
	assert_true(p->has_capabilities);
	assert_int_equal(p->caps.bounding, 1 << 0 | 1 << 5);
	assert_int_equal(p->caps.ambient, 0);
	assert_true(p->no_new_privileges);
	assert_true(p->has_oom_score_adj && p->oom_score_adj == 0);
	assert_true(p->scheduler.given && p->scheduler.nice == -5);
	assert_true(p->io_priority.given && p->io_priority.class == 3);
	assert_string_equal(p->apparmor_profile, "p");
	assert_null(p->selinux_label);
}

static void unknown_capabilities_are_told(void **state)
{
	struct spec_log log = { "" };
	auto_ptr(spec_free) struct spec *s =
		spec_try(PROCESS("'capabilities':{'bounding':['CAP_KILL',"
				 "'CAP_FOO'],'permitted':['CAP_FOO',"
				 "'X\\u001b']}"),
			 &log, NULL);

	assert_non_null(s);
	assert_int_equal(s->process.caps.bounding, 1 << 5);
	assert_non_null(strstr(log.text, "ignoring unknown or unavailable "
					 "capabilities: CAP_FOO, X\\x1b"));
}

static void hooks_are_read(void **state)
{
	auto_ptr(spec_free) struct spec *s = spec_good(
		DOC("'hooks':{'createRuntime':[{'path':'/a'},{'path':'/b',"
		    "'args':['b','c'],'env':['X=y'],'timeout':3}]}"));
	const struct spec_hooks *h = &s->hooks;

	assert_int_equal(h->n[SPEC_HOOK_CREATE_RUNTIME], 2);
	assert_int_equal(h->n[SPEC_HOOK_PRESTART], 0);
	assert_int_equal(h->v[SPEC_HOOK_CREATE_RUNTIME][0].args.n, 0);
	assert_int_equal(h->v[SPEC_HOOK_CREATE_RUNTIME][0].timeout_s, 0);
	assert_string_equal(h->v[SPEC_HOOK_CREATE_RUNTIME][1].args.v[1], "c");
	assert_int_equal(h->v[SPEC_HOOK_CREATE_RUNTIME][1].timeout_s, 3);
	assert_string_equal(spec_hook_name(SPEC_HOOK_CREATE_RUNTIME),
			    "createRuntime");
	assert_string_equal(spec_hook_name(SPEC_HOOK_POSTSTOP), "poststop");
}

static void branch_annotations_are_read(void **state)
{
	auto_ptr(spec_free) struct spec *none =
		spec_good(ANNOTATION("io.sandlock.branch", "none"));
	auto_ptr(spec_free) struct spec *unsaid = spec_good("{" ROOT "}");
	auto_ptr(spec_free) struct spec *all = spec_good(DOC(
		"'annotations':{'a':'b','io.sandlock.branch.on-exit':'commit',"
		"'io.sandlock.branch.on-error':'abort',"
		"'io.sandlock.branch.storage':'/s',"
		"'io.sandlock.branch.quota':'3M',"
		"'io.sandlock.branch.durable':'true'}"));

	assert_int_equal(none->branch.want, SPEC_BRANCH_NONE);
	assert_int_equal(unsaid->branch.want, SPEC_BRANCH_UNSAID);
	assert_int_equal(unsaid->branch.on_exit, DISPOSE_UNSAID);
	assert_int_equal(all->branch.want, SPEC_BRANCH_YES);
	assert_int_equal(all->branch.on_exit, DISPOSE_COMMIT);
	assert_int_equal(all->branch.on_error, DISPOSE_ABORT);
	assert_string_equal(all->branch.storage, "/s");
	assert_int_equal(all->branch.quota_bytes, 3 << 20);
	assert_true(all->branch.has_durable && all->branch.durable);
	assert_string_equal(spec_annotation(all, "a"), "b");
	assert_null(spec_annotation(all, "z"));
}

static int read_config(const char *bundle, const char *config, const char *want,
		       struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	int r = spec_read(bundle, config, &b, err);

	if (r == 0)
		assert_string_equal(buf_str(&b), want);
	return r;
}

/* Every file that is read: which ones, how large, of what type. */
static void files_are_read(void **state)
{
	struct error err = ERROR_INIT;
	char dir[256], path[300];
	auto_close int dir_fd = unit_tmpdir(dir);
	auto_free char *text = spec_quoted("{" ROOT "}");
	int fd;

	assert_int_equal(read_config(dir, NULL, "", &err), -ENOENT);
	assert_non_null(strstr(err.msg, "config.json'"));
	assert_non_null(strstr(err.hint, "sandlock spec"));
	assert_int_equal(mkfifoat(dir_fd, "config.json", 0600), 0);
	assert_int_equal(read_config(dir, NULL, "", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "is no regular file"));
	assert_int_equal(unlinkat(dir_fd, "config.json", 0), 0);

	fd = openat(dir_fd, "config.json", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(read_config(dir, NULL, text, &err), 0);
	(void)snprintf(path, sizeof(path), "%s/config.json", dir);
	assert_int_equal(read_config("/", path, text, &err), 0);
	assert_int_equal(read_config("/", dir, "", &err), -EISDIR);

	assert_int_equal(ftruncate(fd, 4 * 1024 * 1024 + 1), 0);
	assert_int_equal(read_config(dir, NULL, "", &err), -EFBIG);
	assert_non_null(strstr(err.msg, "has more than 4194304 bytes"));
	(void)close(fd);
	assert_int_equal(unlinkat(dir_fd, "config.json", 0), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void a_process_file_is_read_and_copied(void **state)
{
	struct spec_process *p = NULL, *copy = NULL;
	struct error err = ERROR_INIT;
	auto_free char *text = spec_quoted(
		"{'cwd':'/','args':['a'],'env':['A=b'],'user':{'uid':1,"
		"'gid':2,'additionalGids':[3]},'rlimits':[{'type':"
		"'RLIMIT_CPU','soft':1,'hard':2}],'execCPUAffinity':"
		"{'initial':'0'},'selinuxLabel':'l'}");

	assert_int_equal(spec_process_parse(text, strlen(text), NULL, &p, &err),
			 0);
	assert_int_equal(spec_process_copy(p, &copy), 0);
	spec_process_free(p);
	assert_string_equal(copy->args.v[0], "a");
	assert_string_equal(copy->env.v[0], "A=b");
	assert_int_equal(copy->additional_gids[0], 3);
	assert_int_equal(copy->rlimits[0].hard, 2);
	assert_string_equal(copy->affinity_initial, "0");
	assert_null(copy->affinity_final);
	assert_string_equal(copy->selinux_label, "l");
	spec_process_free(copy);
	spec_process_free(NULL);
	assert_int_equal(spec_process_parse("{}", 2, NULL, &p, &err), -EINVAL);
	assert_string_equal(err.msg,
			    "process.json: cwd: is required but missing");
}

static void hostile_text_is_escaped(void **state)
{
	struct error err = ERROR_INIT;

	assert_null(spec_try(PROCESS("'rlimits':[{'type':'\\u001b[31m"
				     "0123456789012345678901234567890123456789"
				     "0123456789012345678901234567890123456789"
				     "','soft':1,'hard':1}]"),
			     NULL, &err));
	assert_non_null(strstr(err.msg, "unknown rlimit '\\x1b[31m0123"));
	assert_non_null(strstr(err.msg, "...'"));
	assert_null(strchr(err.msg, '\x1b'));
	assert_true(strlen(err.msg) < 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_document_is_checked),
		cmocka_unit_test(the_version_is_checked),
		cmocka_unit_test(the_process_is_checked),
		cmocka_unit_test(the_scheduler_is_checked),
		cmocka_unit_test(hooks_are_checked),
		cmocka_unit_test(branch_annotations_are_checked),
		cmocka_unit_test(paths_are_made_absolute),
		cmocka_unit_test(a_process_is_read),
		cmocka_unit_test(unknown_capabilities_are_told),
		cmocka_unit_test(hooks_are_read),
		cmocka_unit_test(branch_annotations_are_read),
		cmocka_unit_test(files_are_read),
		cmocka_unit_test(a_process_file_is_read_and_copied),
		cmocka_unit_test(hostile_text_is_escaped),
	};

	return RUN_TESTS(tests);
}
