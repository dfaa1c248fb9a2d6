#include "rootfs_unit.h"

#include <sys/prctl.h>

/* Options of the mount on PATH, as /proc/self/mounts has them. */
#define OPTIONS(path) "$(grep ' " path " ' /proc/self/mounts | cut -d' ' -f4)"
#define HAS(path, option) \
	"grep ' " path " ' /proc/self/mountinfo | grep -q '" option "'"

static void binds_keep_what_is_there(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("mkdir %s/vol && touch %s/vol/f", b->dir, b->dir);
	bundle_ok(b,
		  PROC "," BIND("vol", "/a/new/dir", "\"bind\"") "," BIND(
			  "vol", "/ro",
			  "\"bind\",\"ro\",\"nosuid\",\"nodev\","
			  "\"noexec\",\"noatime\"") "," BIND("vol/f",
							     "/etc/file",
							     "\"bind\",\"ro\""),
		  "",
		  "set -e; touch /a/new/dir/made; [ -f /ro/f ];"
		  "! touch /ro/x 2>/dev/null; [ -f /etc/file ];"
		  "! echo x 2>/dev/null >/etc/file;" HAS(
			  "/ro",
			  " ro,nosuid,nodev,noexec,noatime ") ";" HAS("/a/new/"
								      "dir",
								      " rw,"
								      "relatime"
								      " "));
	shell("test -e %s/vol/made", b->dir);
	shell("test ! -s %s/vol/f && test -f %s/rootfs/etc/file", b->dir,
	      b->dir);
}

static void recursive_options(void **state)
{
	struct bundle *b = bundle_of(state);

	bundle_ok(
		b,
		PROC
		"," MOUNT("/v", "tmpfs", "") "," MOUNT("/v/sub", "tmpfs", "") "," BIND(
			"rootfs/v", "/ro",
			"\"rbind\",\"ro\"") "," BIND("rootfs/v", "/rro",
						     "\"rbind\",\"rro\","
						     "\"rnoatime\"") "," BIND("rootfs/v",
									      "/one",
									      "\"bind\""),
		"",
		"set -e; ! touch /ro/x 2>/dev/null; touch /ro/sub/x;"
		"! touch /rro/sub/y 2>/dev/null; [ -e /rro/sub/x ];"
		"! touch /rro/y 2>/dev/null; [ ! -e /one/sub/x ];" HAS(
			"/rro/sub", " ro,noatime "));
}

static void atime_modes(void **state)
{
	struct bundle *b = bundle_of(state);

	bundle_ok(
		b,
		PROC
		"," MOUNT("/v", "tmpfs", "\"noatime\"") "," BIND("rootfs/v", "/same", "\"bind\"") "," BIND(
			"rootfs/v", "/atime",
			"\"bind\",\"atime\"") "," BIND("rootfs/v", "/rel",
						       "\"bind\","
						       "\"relatime\"") "," BIND("rootfs/v",
										"/strict",
										"\"bind\",\"strictatime\"") "," BIND("rootfs/v",
														     "/not",
														     "\"bind\",\"nostrictatime\""),
		"",
		"set -e;" HAS("/same", " rw,noatime ") ";" HAS(
			"/atime",
			" rw"
			",re"
			"lat"
			"ime"
			" ") ";" HAS("/rel",
				     " rw,relatime ") ";" HAS("/strict",
							      " /strict rw - "
							      "\\| /strict "
							      "rw ") ";" HAS("/"
									     "n"
									     "o"
									     "t",
									     " "
									     "r"
									     "w"
									     ","
									     "n"
									     "o"
									     "a"
									     "t"
									     "i"
									     "m"
									     "e"
									     " "));
}

static int bind_as_user(struct bundle *b, const char *mounts)
{
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	shell("mount --make-rprivate / && mkdir %s/vol && "
	      "mount -t tmpfs -o nosuid,nodev t %s/vol",
	      b->dir, b->dir);
	if (setresgid(b->user, b->user, b->user) < 0 ||
	    setresuid(b->user, b->user, b->user) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return -errno;
	return bundle_run(b, mounts, "", "exit 0");
}

static void a_locked_option_cannot_be_cleared(void **state)
{
	struct bundle *b = bundle_of(state);
	int status;
	pid_t pid;

	b->userns = true;
	b->user = 54321;
	shell("chown -R 54321:54321 %s", b->dir);
	pid = fork();
	if (pid == 0) {
		int n = bind_as_user(
			b, PROC "," BIND("vol", "/v", "\"bind\",\"suid\""));

		if (n != -EPERM || !strstr(b->err.msg, "mounts[1] ('/v')") ||
		    !strstr(b->err.hint, "locked"))
			print_message("%d: %s\n", n, b->err.msg);
		_exit(n != -EPERM || !strstr(b->err.hint, "locked"));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void missing_and_mismatching(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("cd %s && mkdir vol rootfs/dir && touch f rootfs/file", b->dir);
	bundle_fails(b, BIND("none", "/x", "\"bind\""), "", ENOENT,
		     "mounts[0] ('/x'): bind source");
	bundle_fails(b, BIND("vol", "/file", "\"bind\""), "", ENOTDIR,
		     "'/file' is not a directory");
	bundle_fails(b, BIND("f", "/dir", "\"bind\""), "", EISDIR,
		     "'/dir' is a directory");
	bundle_fails(b, BIND("vol", "/", "\"bind\""), "", EINVAL,
		     "the root itself");
	bundle_fails(b, MOUNT("/dir/..", "tmpfs", ""), "", EINVAL,
		     "the root itself");
	bundle_fails(b, MOUNT("/dir", "tmpfs", "\"fooopt\""), "", EINVAL,
		     "fooopt");
	bundle_fails(b, MOUNT("/dir", "tmpfs", "\"size=lots\""), "", EINVAL,
		     "'size=lots'");
}

static void read_only_file_systems_below(void **state)
{
	struct bundle *b = bundle_of(state);

	b->readonly = true;
	shell("cd %s && mkdir rootfs/ro rootfs/dev rootfs/proc vol", b->dir);
	bundle_ok(
		b,
		PROC "," MOUNT(
			"/dev", "tmpfs",
			"\"ro\",\"mode=755\"") "," SHM
					       "," MOUNT(
						       "/ro", "tmpfs",
						       "\"ro\"") "," MOUNT("/ro"
									   "/be"
									   "lo"
									   "w",
									   "tmp"
									   "fs",
									   ""),
		"",
		"set -e; ! touch /dev/x 2>/dev/null; [ -c /dev/null ];"
		"touch /dev/shm/x; ! touch /ro/x 2>/dev/null;"
		"touch /ro/below/x");
	/* The target is missing, and there is no way to make it. */
	bundle_fails(b,
		     BIND("vol", "/ro",
			  "\"bind\",\"ro\"") "," MOUNT("/ro/x", "tmpfs", ""),
		     "", EROFS, "mounts[1]");
	assert_non_null(strstr(b->err.hint, "beforehand"));
}

static void tmpfs_takes_the_mode_below(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("mkdir -m 0751 %s/rootfs/d", b->dir);
	bundle_ok(b,
		  PROC "," MOUNT("/d", "tmpfs", "\"size=1m\"") "," MOUNT(
			  "/new", "tmpfs", "") "," MOUNT("/tmp", "tmpfs",
							 "\"mode=1770\""),
		  "",
		  "[ $(stat -c %a /d) = 751 ] && [ $(stat -c %a /new) = 1777 ] "
		  "&& [ $(stat -c %a /tmp) = 1770 ]");
}

static void tmpcopyup(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("cd %s/rootfs && mkdir -p d/s/t && echo hello >d/s/t/f && "
	      "chmod 0640 d/s/t/f && chown 3:4 d/s/t/f && ln -s t d/s/l && "
	      "mkfifo d/p && touch -d @1000 d/s/t/f && chmod 0701 d/s",
	      b->dir);
	bundle_ok(b, PROC "," MOUNT("/d", "tmpfs", "\"tmpcopyup\""), "",
		  "set -e; [ $(cat /d/s/t/f) = hello ];"
		  "[ \"$(stat -c '%a %u %g %Y' /d/s/t/f)\" = '640 3 4 1000' ];"
		  "[ $(readlink /d/s/l) = t ]; [ -p /d/p ];"
		  "[ $(stat -c %a /d/s) = 701 ]; touch /d/new");
	shell("test ! -e %s/rootfs/d/new", b->dir);
	bundle_fails(b, MOUNT("/bin", "tmpfs", "\"tmpcopyup\",\"size=64k\""),
		     "", ENOSPC, "cannot copy");
}

static void links_are_resolved_inside(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("cd %s && mkdir vol && cd rootfs && ln -s /tmp lnk && "
	      "ln -s /a/b/c dangling && ln -s loop loop && mkdir d && "
	      "ln -s ../dangling/../x/y d/back && ln -s d/f d/link",
	      b->dir);
	bundle_ok(b,
		  PROC "," MOUNT("/lnk", "tmpfs", "") "," BIND(
			  "vol", "/dangling",
			  "\"bind\"") "," MOUNT("/d/back/z", "tmpfs", ""),
		  "",
		  "set -e;" HAS("/tmp", " tmpfs ") ";" HAS(
			  "/a/b/c", "/vol") ";" HAS("/a/b/x/y/z", " tmpfs "));
	shell("test -d %s/rootfs/a/b/x/y/z", b->dir);
	bundle_fails(b, MOUNT("/loop/x", "tmpfs", ""), "", ELOOP, "'/loop/x'");
	bundle_ok(b, PROC "," MOUNT("/a/../../../d/./q", "tmpfs", ""), "",
		  HAS("/d/q", " tmpfs "));
}

static void links_as_source_and_destination(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("cd %s && mkdir vol && ln -s vol lnk && touch vol/f && "
	      "ln -s nowhere rootfs/dl",
	      b->dir);
	bundle_ok(b,
		  PROC "," BIND("lnk", "/v", "\"bind\"") "," BIND(
			  "lnk", "/c/copied", "\"bind\",\"copy-symlink\""),
		  "", "[ -e /v/f ] && [ $(readlink /c/copied) = vol ]");
	bundle_ok(b,
		  PROC "," BIND("vol/f", "/dl", "\"bind\",\"dest-nofollow\""),
		  "", "[ -f /dl ] && [ ! -e /nowhere ]");
}

/* What is mounted earlier is seen by what is bound later. */
static void mounts_in_order(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("mkdir -p %s/vol/sub && touch %s/vol/sub/f", b->dir, b->dir);
	bundle_ok(b,
		  PROC "," BIND("vol", "/mnt", "\"bind\"") "," BIND(
			  "rootfs/mnt/sub", "/final",
			  "\"bind\"") "," MOUNT("/mnt", "tmpfs", ""),
		  "", "[ -e /final/f ] && [ ! -e /mnt/sub ]");
	bundle_ok(b, PROC "," BIND("rootfs/../vol", "/v", "\"bind\""), "",
		  "[ -e /v/sub/f ]");
	b->userns = true;
	shell("chown -R %d:%d %s/rootfs", SUB_BASE, SUB_BASE, b->dir);
	bundle_ok(b,
		  PROC "," BIND("vol", "/mnt", "\"bind\"") "," BIND(
			  "rootfs/mnt/sub", "/final", "\"bind\""),
		  "", "[ -e /final/f ]");
}

static void remounts(void **state)
{
	struct bundle *b = bundle_of(state);

	bundle_ok(
		b,
		PROC "," MOUNT("/v", "tmpfs", "\"size=1m\"") "," MOUNT(
			"/v", "tmpfs",
			"\"remount\",\"ro\",\"nosuid\"") "," MOUNT("/w",
								   "tmpfs",
								   "\"size="
								   "1m\"") "," MOUNT("/w",
										     "tmpfs",
										     "\"remount\",\"size=2m\""),
		"",
		HAS("/v", " ro,nosuid,relatime ") " && " HAS(
			"/w", "size=2048k") " && touch /w/x");
}

static void flags_of_file_systems(void **state)
{
	struct bundle *b = bundle_of(state);

	bundle_ok(b,
		  PROC "," MOUNT("/v", "tmpfs",
				 "\"nosymfollow\",\"nodiratime\",\"rnoexec\","
				 "\"lazytime\",\"noatime\""),
		  "", HAS("/v", " rw,noexec,noatime,nodiratime,nosymfollow "));
}

static void propagation(void **state)
{
	struct bundle *b = bundle_of(state);
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		int n = unshare(CLONE_NEWNS) < 0;

		shell("mount --make-rprivate / && cd %s && mkdir vol && "
		      "mount -t tmpfs t vol && mount --make-shared vol && "
		      "mkdir vol/f",
		      b->dir);
		n = n
			    ?: bundle_run(b,
					  PROC
					  "," BIND("vol", "/p", "\"bind\"") "," BIND("vol", "/s", "\"bind\",\"rslave\"") "," BIND(
						  "vol", "/r",
						  "\"rbind\",\"rshared\"") "," BIND("vol",
										    "/u",
										    "\"bind\",\"unbindable\""),
					  "",
					  "! " HAS("/p", "shared:\\|master:") " && " HAS("/s", "master:") " && " HAS(
						  "/r",
						  "shared"
						  ":") " "
						       "&"
						       "&"
						       " " HAS("/u", "unbindabl"
								     "e") " && "
									  "moun"
									  "t "
									  "-t "
									  "tmpf"
									  "s "
									  "insi"
									  "de "
									  "/r/"
									  "f");
		/* What was mounted inside of a shared one is on the host. */
		n = n
			    ?: system("cut -d' ' -f5 /proc/self/mountinfo | "
				      "grep -q /vol/f");
		if (n)
			print_message("%d: %s\n", n, b->err.msg);
		_exit(n != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void idmapped(void **state)
{
	struct bundle *b = bundle_of(state);
#define IDMAP(dest, opts)                                                     \
	"{\"destination\":\"" dest "\",\"source\":\"vol\",\"options\":[" opts \
	"],\"uidMappings\":[{\"containerID\":0,\"hostID\":1000,"              \
	"\"size\":10}],\"gidMappings\":[{\"containerID\":0,\"hostID\":2000,"  \
	"\"size\":10}]}"

	shell("cd %s && mkdir vol && touch vol/f && chown 3:4 vol/f", b->dir);
	bundle_ok(b, PROC "," IDMAP("/v", "\"bind\",\"idmap\""), "",
		  "[ \"$(stat -c %u:%g /v/f)\" = 1003:2004 ]");
	bundle_fails(b, PROC "," BIND("vol", "/v", "\"bind\",\"idmap\""), "",
		     EINVAL, "'idmap' needs");
	b->userns = true;
	shell("chown -R %d:%d %s/rootfs", SUB_BASE, SUB_BASE, b->dir);
	bundle_ok(b, PROC "," BIND("vol", "/v", "\"bind\",\"idmap\""), "",
		  "[ \"$(stat -c %u:%g /v/f)\" = 3:4 ]");
}

static void hidden_directories(void **state)
{
	struct bundle *b = bundle_of(state);
	const char *hidden[] = { NULL, "/no/such/store", NULL };
	auto_free char *store = NULL;

	assert_true(asprintf(&store, "%s/var/store", b->dir) > 0);
	hidden[0] = store;
	b->hidden = hidden;
	shell("mkdir -p %s/secret && cd %s && touch var/f && ln -s var alias",
	      store, b->dir);
	bundle_ok(b,
		  PROC "," BIND("var", "/v", "\"bind\"") "," BIND(
			  "alias", "/a",
			  "\"rbind\"") "," BIND("var/store", "/s", "\"bind\""),
		  "",
		  "set -e; for i in /v/store /a/store /s; do [ -d $i ];"
		  "[ -z \"$(ls -A $i)\" ]; ! touch $i/x 2>/dev/null; done;"
		  "[ -f /v/f ]; touch /v/g");
	bundle_ok(b, PROC "," BIND("/", "/host", "\"rbind\",\"rslave\""), "",
		  "for i in /host/tmp/sandlock-unit.*/var/store; do "
		  "[ ! -e $i/secret ] || exit 1; done");
	bundle_fails(b, BIND("var/store/secret", "/s", "\"bind\""), "", EACCES,
		     "belongs to sandlock");
	bundle_fails(b, BIND("var", "/s", "\"bind\",\"rshared\""), "", EINVAL,
		     "cannot be shared");
	shell("test -d %s/secret", store);
}

/* The host shows the store a second time, somewhere else. */
static void hidden_behind_another_mount(void **state)
{
	struct bundle *b = bundle_of(state);
	const char *hidden[] = { NULL, NULL };
	auto_free char *store = NULL;
	int status;
	pid_t pid;

	assert_true(asprintf(&store, "%s/var/store", b->dir) > 0);
	hidden[0] = store;
	b->hidden = hidden;
	shell("cd %s && mkdir -p var/store/secret 'mnt/a b' mnt/c", b->dir);
	pid = fork();
	if (pid == 0) {
		int n = unshare(CLONE_NEWNS) < 0;

		shell("mount --make-rprivate / && cd %s && "
		      "mount --bind var 'mnt/a b' && "
		      "mount --bind var/store/secret mnt/c && "
		      "touch var/store/secret/f",
		      b->dir);
		n = n
			    ?: bundle_run(b,
					  PROC "," BIND(
						  "mnt", "/m",
						  "\"rbind\"") "," BIND("mnt/c",
									"/c",
									"\"bind"
									"\""),
					  "",
					  "ls -R /m; [ -d '/m/a b/store' ] && "
					  "[ ! -e '/m/a b/store/secret' ] && "
					  "[ ! -e /m/c/f ] && [ ! -e /c/f ]");
		if (n)
			print_message("%d: %s\n", n, b->err.msg);
		_exit(n != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A store on the file system of the root itself. */
static void hidden_in_the_root(void **state)
{
	struct bundle *b = bundle_of(state);
	const char *hidden[] = { NULL, NULL };
	auto_free char *store = NULL;

	assert_true(asprintf(&store, "%s/rootfs/.sandlock-0", b->dir) > 0);
	hidden[0] = store;
	b->hidden = hidden;
	shell("mkdir -p %s/secret", store);
	bundle_ok(b,
		  PROC "," BIND("rootfs", "/x", "\"bind\"") "," BIND(
			  "rootfs/.sandlock-0", "/y", "\"bind\""),
		  "",
		  "for i in /.sandlock-0 /x/.sandlock-0 /y; do [ -d $i ] && "
		  "[ -z \"$(ls -A $i)\" ] || exit 1; done");
}

static void cgroup_mount_without_a_cgroup(void **state)
{
	struct bundle *b = bundle_of(state);

	b->network = true;
	bundle_ok(b, PROC "," SYS "," CGROUP, "",
		  "! mkdir /sys/fs/cgroup/x 2>/dev/null && "
		  "[ ! -e /sys/fs/cgroup/memory ] && " HAS("/sys/fs/cgroup",
							   " ro,"));
}

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, bundle_setup, bundle_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(binds_keep_what_is_there),
		TEST(recursive_options),
		TEST(atime_modes),
		TEST(a_locked_option_cannot_be_cleared),
		TEST(missing_and_mismatching),
		TEST(read_only_file_systems_below),
		TEST(tmpfs_takes_the_mode_below),
		TEST(tmpcopyup),
		TEST(links_are_resolved_inside),
		TEST(links_as_source_and_destination),
		TEST(mounts_in_order),
		TEST(remounts),
		TEST(flags_of_file_systems),
		TEST(propagation),
		TEST(idmapped),
		TEST(hidden_directories),
		TEST(hidden_behind_another_mount),
		TEST(hidden_in_the_root),
		TEST(cgroup_mount_without_a_cgroup),
	};

	return RUN_TESTS(tests);
}
