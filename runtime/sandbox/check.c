#include "sandbox/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/subid.h"
#include "branch/branch.h"
#include "control/rundir.h"
#include "kernel/cgroup.h"
#include "kernel/landlock.h"
#include "kernel/resolve.h"
#include "kernel/seccomp.h"
#include "sandbox/plan.h"
#include "sandbox/sandbox.h"
#include "spec/request.h"

enum { MAX_ROWS = 16 };

struct checking {
	const struct sandbox_env *env;
	struct check *c;
	bool privileged;
	bool failed; /* out of memory */
	bool notify; /* tier C is possible */
};

static char *format(struct checking *k, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

static char *format(struct checking *k, const char *fmt, va_list ap)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0) {
		k->failed = true;
		return NULL;
	}
	return text;
}

static struct check_row *add_row(struct checking *k, const char *name,
				 enum check_state state, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static struct check_row *add_row(struct checking *k, const char *name,
				 enum check_state state, const char *fmt, ...)
{
	struct check_row *row = &k->c->rows[k->c->n++];
	va_list ap;

	va_start(ap, fmt);
	row->name = name;
	row->state = state;
	row->found = format(k, fmt, ap);
	va_end(ap);
	if (state == CHECK_MISSING)
		k->c->usable = false;
	return row;
}

static void set_text(struct checking *k, char **where, const char *text)
{
	*where = strdup(text);
	k->failed |= !*where;
}

static void explain(struct checking *k, struct check_row *row,
		    const char *means, const char *fix)
{
	set_text(k, &row->means, means);
	set_text(k, &row->fix, fix);
}

/* The number in a file below /proc/sys, or -1. */
static long read_sysctl(const char *path)
{
	auto_(buf) struct buf b = BUF_INIT;

	if (fd_read_file(AT_FDCWD, path, 64, &b) < 0)
		return -1;
	return strtol(buf_str(&b), NULL, 10);
}

static void check_kernel(struct checking *k)
{
	struct utsname u;

	if (uname(&u) == 0)
		add_row(k, "kernel", CHECK_OK, "%s %s %s", u.sysname, u.release,
			u.machine);
}

/* 0 where there is no Yama. */
static long yama_scope(void)
{
	long scope = read_sysctl("/proc/sys/kernel/yama/ptrace_scope");

	return scope < 0 ? 0 : scope;
}

static const char *user_namespace_fix(void)
{
	if (read_sysctl("/proc/sys/kernel/"
			"apparmor_restrict_unprivileged_userns") == 1)
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns="
		       "0, or give sandlock an AppArmor profile with 'userns,'";
	if (read_sysctl("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		return "sysctl -w kernel.unprivileged_userns_clone=1";
	if (read_sysctl("/proc/sys/user/max_user_namespaces") == 0)
		return "sysctl -w user.max_user_namespaces=15000";
	return "a container's seccomp profile may forbid it: start it with "
	       "--security-opt seccomp=unconfined --security-opt "
	       "apparmor=unconfined, or run sandlock on the host";
}

static void check_namespaces(struct checking *k,
			     const struct probe_namespaces *p)
{
	struct check_row *row;

	if (k->privileged)
		add_row(k, "user-namespace", CHECK_OK,
			"not needed: root with CAP_SYS_ADMIN");
	else if (!p->user)
		add_row(k, "user-namespace", CHECK_OK, "can be made");
	else {
		row = add_row(k, "user-namespace",
			      k->notify ? CHECK_LIMITED : CHECK_MISSING,
			      "refused: %s", strerror(p->user));
		explain(k, row,
			k->notify ? "an ordinary user's commands run in "
				    "tier C, bundles not at all"
				  : "an ordinary user can run no sandbox",
			user_namespace_fix());
		return;
	}
	if (!p->mount)
		add_row(k, "namespaces", CHECK_OK,
			"mount, pid, network, ipc and uts can be made");
	else {
		row = add_row(k, "namespaces",
			      k->notify ? CHECK_LIMITED : CHECK_MISSING,
			      "refused: %s", strerror(p->mount));
		explain(k, row,
			k->notify ? "commands run in tier C, bundles not at all"
				  : "there is nothing to hide the host behind",
			"a container needs CAP_SYS_ADMIN or a user namespace "
			"with a seccomp profile that allows unshare and mount");
		return;
	}
	if (!p->proc)
		add_row(k, "procfs", CHECK_OK, "can be mounted");
	else {
		row = add_row(k, "procfs",
			      k->notify ? CHECK_LIMITED : CHECK_MISSING,
			      "refused: %s", strerror(p->proc));
		explain(k, row, "a sandbox cannot have a /proc of its own",
			"the container masks parts of /proc: start it with "
			"--security-opt systempaths=unconfined");
	}
	if (!p->overlay)
		add_row(k, "overlay", CHECK_OK, "can be mounted%s",
			k->privileged ? "" : " in a user namespace");
	else {
		row = add_row(k, "overlay",
			      k->notify ? CHECK_LIMITED : CHECK_MISSING,
			      "refused: %s", strerror(p->overlay));
		explain(k, row, "writes cannot go to a branch",
			p->overlay == ENODEV
				? "modprobe overlay"
				: "an ordinary user needs Linux 5.11 or newer");
	}
}

static void check_landlock(struct checking *k)
{
	int abi = landlock_abi();
	auto_(buf) struct buf flags = BUF_INIT;
	struct check_row *row;

	k->c->landlock_abi = abi;
	for (int i = 0; i < PROTECT_COUNT; i++)
		if (abi < protection_abi((enum protection)i))
			buf_printf(&flags, "%s%s", flags.len ? "," : "",
				   protection_name((enum protection)i));
	if (!flags.len) {
		add_row(k, "landlock", CHECK_OK,
			"ABI %d: %u file rights, %u network rights, %u scopes",
			abi, landlock_count_fs(abi), landlock_count_net(abi),
			landlock_count_scopes(abi));
		return;
	}
	if (abi >= protection_abi(PROTECT_FS_REFER)) {
		row = add_row(k, "landlock", CHECK_LIMITED,
			      "ABI %d, without %s", abi, buf_str(&flags));
		set_text(k, &row->means,
			 "namespaces alone keep in what these would, and "
			 "where there are none `run -- COMMAND` is refused");
	} else {
		row = abi ? add_row(k, "landlock", CHECK_MISSING,
				    "ABI %d, without %s", abi, buf_str(&flags))
			  : add_row(k, "landlock", CHECK_MISSING,
				    "not enabled");
		set_text(k, &row->means, "`run -- COMMAND` is refused");
	}
	if (abi && asprintf(&row->fix,
			    "Linux 6.12 or newer, or run with "
			    "--allow-degraded=%s",
			    buf_str(&flags)) < 0)
		row->fix = NULL;
	else if (!abi)
		set_text(k, &row->fix,
			 "put 'landlock' into lsm= of the "
			 "kernel command line");
	k->failed |= !row->fix;
}

static void check_seccomp(struct checking *k, const struct probe_seccomp *p)
{
	struct check_row *row;

	if (p->filter) {
		row = add_row(k, "seccomp", CHECK_MISSING, "refused: %s",
			      strerror(p->filter));
		explain(k, row, "`run -- COMMAND` is refused",
			"a kernel with CONFIG_SECCOMP_FILTER");
		return;
	}
	add_row(k, "seccomp", CHECK_OK, "filters, libseccomp %s",
		seccomp_library_version());
	if (p->listener || p->killable) {
		int why = p->listener ? p->listener : p->killable;

		row = add_row(k, "notification", CHECK_LIMITED, "refused: %s",
			      strerror(why));
		explain(k, row, "no rule that has to look at single calls",
			why == EBUSY
				? "we are inside another supervised sandbox: "
				  "leave it"
				: "Linux 5.19 or newer");
		return;
	}
	row = add_row(k, "notification",
		      p->sync_wake || p->addfd_send ? CHECK_LIMITED : CHECK_OK,
		      "listener, wait killable%s%s",
		      p->sync_wake ? "" : ", sync wake-up",
		      p->addfd_send ? "" : ", atomic addfd");
	if (row->state != CHECK_OK)
		explain(k, row, "supervised calls are slower",
			"Linux 6.6 or newer");
}

static void check_names(struct checking *k)
{
	int r = resolve_check();
	struct check_row *row;

	if (r == 0) {
		add_row(k, "host-names", CHECK_OK, "resolved by getent");
		return;
	}
	row = add_row(k, "host-names", CHECK_LIMITED, "no getent: %s",
		      strerror(-r));
	explain(k, row, "network rules with addresses only",
		"install getent, of libc");
}

static void check_cgroup(struct checking *k)
{
	static const char *const names[] = {
		[CGROUP_NONE] = "none",
		[CGROUP_V1] = "v1",
		[CGROUP_HYBRID] = "hybrid",
		[CGROUP_V2] = "v2",
	};
	enum cgroup_mode mode = cgroup_host_mode();
	auto_(buf) struct buf b = BUF_INIT;
	char path[4200], *own, *end;
	bool writable = false;
	struct check_row *row;

	if (mode == CGROUP_V2 &&
	    fd_read_file(AT_FDCWD, "/proc/self/cgroup", 4096, &b) == 0 &&
	    (own = strstr(buf_str(&b), "0::/"))) {
		end = strchr(own, '\n');
		(void)snprintf(path, sizeof(path), "/sys/fs/cgroup%.*s",
			       (int)(end ? end - own - 3 : 0), own + 3);
		writable = faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
	} else if (mode != CGROUP_NONE) {
		writable = k->privileged && access("/sys/fs/cgroup", W_OK) == 0;
	}
	if (writable) {
		add_row(k, "cgroup", CHECK_OK, "%s, limits can be set",
			names[mode]);
		return;
	}
	row = add_row(k, "cgroup", CHECK_LIMITED, "%s, none can be made",
		      names[mode]);
	explain(k, row,
		"memory and processes are counted by the supervisor, no pause",
		mode == CGROUP_V2
			? "systemd-run --user --scope -p Delegate=yes sandlock "
			  "…"
			: "mount cgroup2, or run as root where it is writable");
}

static void check_subids(struct checking *k)
{
	struct idmap m = { 0 };
	struct error err = ERROR_INIT;
	uint64_t n = 0;
	struct check_row *row;

	if (k->privileged)
		return;
	if (subid_default_maps(&m, &err) == 0)
		for (size_t i = 0; i < m.uids.n; i++)
			n += m.uids.extents[i].count;
	idmap_done(&m);
	if (n > 1) {
		add_row(k, "subordinate-ids", CHECK_OK, "%llu",
			(unsigned long long)n - 1);
		return;
	}
	row = add_row(k, "subordinate-ids", CHECK_LIMITED, "none");
	explain(k, row,
		"files of other owners cannot be changed on a branch, "
		"bundles have a single user",
		"install uidmap (newuidmap), then usermod --add-subuids "
		"100000-165535 --add-subgids 100000-165535 $USER");
}

static void check_pidfd(struct checking *k)
{
	int e = probe_pidfd_info();

	/* Before 6.15 the status comes from /proc: nothing is lost. */
	add_row(k, "pidfd", CHECK_OK, "%s",
		e ? "exit status from /proc" : "exit status from the pidfd");
}

/* The nearest directory above @path, or itself, that exists. */
static char *existing_part(const char *path)
{
	char *at = strdup(path);

	while (at && access(at, F_OK) < 0) {
		char *slash = strrchr(at, '/');

		if (!slash)
			break;
		slash[slash == at] = '\0';
		if (slash == at)
			break;
	}
	return at;
}

static void check_runtime_dir(struct checking *k)
{
	auto_free char *root = NULL;
	auto_free char *at = NULL;
	struct check_row *row;
	struct stat st;

	if (rundir_default(k->env->root, &root) < 0 ||
	    !(at = existing_part(root))) {
		k->failed = true;
		return;
	}
	if (stat(at, &st) == 0 &&
	    (strcmp(at, root) != 0 || st.st_uid == geteuid()) &&
	    faccessat(AT_FDCWD, at, W_OK | X_OK, AT_EACCESS) == 0) {
		add_row(k, "runtime-directory", CHECK_OK, "%s", root);
		return;
	}
	row = add_row(k, "runtime-directory", CHECK_LIMITED,
		      strcmp(at, root) ? "'%s' cannot be made"
				       : "'%s' is not ours",
		      root);
	explain(k, row, "sandboxes cannot be listed or controlled",
		"mount a tmpfs on /dev/shm, or name a directory with --root "
		"or SANDLOCK_ROOT");
}

static const char *fs_name(const char *path)
{
	struct statfs fs;

	if (statfs(path, &fs) < 0)
		return "unknown";
	switch ((unsigned long)fs.f_type) {
	case EXT4_SUPER_MAGIC:
		return "ext4";
	case XFS_SUPER_MAGIC:
		return "xfs";
	case BTRFS_SUPER_MAGIC:
		return "btrfs";
	case TMPFS_MAGIC:
		return "tmpfs";
	case OVERLAYFS_SUPER_MAGIC:
		return "overlay";
	case NFS_SUPER_MAGIC:
		return "nfs";
	case FUSE_SUPER_MAGIC:
		return "fuse";
	default:
		return "another file system";
	}
}

static void check_store(struct checking *k)
{
	auto_free char *path =
		k->env->store ? strdup(k->env->store) : store_default_path();
	auto_free char *at = path ? existing_part(path) : NULL;
	const char *fs = at ? fs_name(at) : "";
	struct check_row *row;

	if (!at) {
		row = add_row(k, "store", CHECK_MISSING, "no place for it");
		explain(k, row, "there is nowhere to keep a branch",
			"set SANDLOCK_STORE or HOME");
		return;
	}
	if (faccessat(AT_FDCWD, at, W_OK | X_OK, AT_EACCESS) < 0) {
		row = add_row(k, "store", CHECK_MISSING,
			      "'%s' cannot be "
			      "written to",
			      path);
		explain(k, row, "there is nowhere to keep a branch",
			"set SANDLOCK_STORE to a directory of yours");
		return;
	}
	if (strcmp(fs, "nfs") == 0 || strcmp(fs, "overlay") == 0 ||
	    strcmp(fs, "fuse") == 0) {
		row = add_row(k, "store", CHECK_LIMITED, "%s, on %s", path, fs);
		explain(k, row,
			"an overlay takes no upper layer there: a "
			"branch needs --storage",
			"set SANDLOCK_STORE to a directory on a local disk");
		return;
	}
	if (strcmp(fs, "tmpfs") == 0) {
		row = add_row(k, "store", CHECK_LIMITED, "%s, on tmpfs", path);
		explain(k, row, "branches do not survive a reboot",
			"set SANDLOCK_STORE to a directory on a disk");
		return;
	}
	add_row(k, "store", CHECK_OK, "%s, on %s", path, fs);
}

static bool is_all(const struct probe_namespaces *p)
{
	return !p->user && !p->mount && !p->overlay && !p->proc;
}

static void check_yama(struct checking *k)
{
	long scope = yama_scope();
	struct check_row *row;

	if (scope < 2)
		return;
	row = add_row(k, "ptrace", CHECK_LIMITED,
		      "kernel.yama.ptrace_scope is %ld", scope);
	explain(k, row,
		"an ordinary user's supervisor cannot look into what "
		"it supervises",
		"sysctl -w kernel.yama.ptrace_scope=1");
}

static void check_isolation(struct checking *k,
			    const struct probe_namespaces *p)
{
	struct check_row *row;

	if (is_all(p)) {
		k->c->tier = "A";
		if (k->c->landlock_abi >= protection_abi(PROTECT_FS_REFER)) {
			add_row(k, "isolation", CHECK_OK,
				"tier A: namespaces and an overlay%s",
				k->notify ? "; --isolation=notify works, too"
					  : "");
			return;
		}
		row = add_row(k, "isolation", CHECK_LIMITED,
			      "tier A: namespaces and an overlay");
		explain(k, row,
			"bundles run, commands of the host do not: they need "
			"Landlock",
			"see the lines above");
		return;
	}
	if (k->notify) {
		k->c->tier = "C";
		bool can_getfd = !probe_getfd();

		row = add_row(k, "isolation", CHECK_LIMITED,
			      "tier C: Landlock, a filter and a supervisor%s",
			      can_getfd ? "" : ", but no pidfd_getfd");
		explain(k, row,
			can_getfd ? "commands of the host run, bundles do not"
				  : "commands of the host run without network "
				    "rules, bundles do not",
			can_getfd ? "see the lines above"
				  : "a container: --cap-add SYS_PTRACE");
		return;
	}
	row = add_row(k, "isolation", CHECK_MISSING, "none");
	explain(k, row, "neither bundles nor commands of the host can run",
		"see the lines above");
}

int sandbox_check(const struct sandbox_env *env, struct check *ret,
		  struct error *err)
{
	struct check c = { .usable = true };
	struct checking k = { .env = env,
			      .c = &c,
			      .privileged = caller_is_privileged() };
	struct probe_namespaces ns;
	struct probe_seccomp sc;
	int r = probe_namespaces(k.privileged, &ns);

	if (r == 0)
		r = probe_seccomp(&sc);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot try it out");
	c.rows = calloc(MAX_ROWS, sizeof(*c.rows));
	if (!c.rows)
		return error_set(err, ERR_SYSTEM, ENOMEM, "check");
	k.notify = landlock_abi() >= protection_abi(PROTECT_SIGNAL_SCOPE) &&
		   !sc.filter && !sc.listener && !sc.killable &&
		   yama_scope() < 2;
	check_kernel(&k);
	check_namespaces(&k, &ns);
	check_landlock(&k);
	check_seccomp(&k, &sc);
	check_names(&k);
	check_cgroup(&k);
	check_subids(&k);
	check_pidfd(&k);
	check_runtime_dir(&k);
	check_store(&k);
	check_yama(&k);
	check_isolation(&k, &ns);
	if (k.failed) {
		check_done(&c);
		return error_set(err, ERR_SYSTEM, ENOMEM, "check");
	}
	*ret = c;
	return 0;
}

void check_done(struct check *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->rows[i].found);
		free(c->rows[i].means);
		free(c->rows[i].fix);
	}
	free(c->rows);
	*c = (struct check){ .n = 0 };
}
