#include "sandbox/process.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/path.h"
#include "kernel/caps.h"
#include "kernel/process.h"
#include "sandbox/confine.h"
#include "sandbox/launcher.h"

static const char *env_value(char *const *env, const char *name)
{
	size_t n = strlen(name);
	const char *found = NULL;

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			found = *env + n + 1;
	return found;
}

unsigned int process_listen_fds(void)
{
	const char *text = getenv("LISTEN_FDS");
	char *end;
	unsigned long n;

	if (!text || *text < '0' || *text > '9')
		return 0;
	n = strtoul(text, &end, 10);
	return *end || n > LIMIT_PRESERVE_FDS ? 0 : (unsigned int)n;
}

/* The home directory of @uid by /etc/passwd of the container, else "/". */
static char *find_home(uid_t uid)
{
	auto_close int fd = open("/etc/passwd",
				 O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	auto_file FILE *f = NULL;
	struct passwd pw, *found;
	struct stat st;
	char line[4096];

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return strdup("/");
	f = fdopen(fd, "re");
	if (!f)
		return strdup("/");
	(void)take_fd(&fd);
	while (fgetpwent_r(f, &pw, line, sizeof(line), &found) == 0)
		if (found->pw_uid == uid && found->pw_dir[0] == '/')
			return strdup(found->pw_dir);
	return strdup("/");
}

/*
 * The payload's environment: the last of duplicates wins, HOME is filled in.
 * Socket activation variables are ours to set.
 */
static int build_env(struct process_setup *s, struct error *err)
{
	const struct spec_process *p = s->process;
	const char *home =
		env_value(p->env.n ? p->env.v : (char *[]){ NULL }, "HOME");
	unsigned int listen = s->pass_listen_fds ? process_listen_fds() : 0;
	char **env = calloc(p->env.n + 4, sizeof(*env));
	size_t n = 0;

	if (!env)
		return error_set(err, ERR_SYSTEM, ENOMEM, "environment");
	s->env = env;
	for (size_t i = 0; i < p->env.n; i++) {
		char *eq = strchr(p->env.v[i], '=');
		bool again = false;

		for (size_t j = i + 1; eq && j < p->env.n && !again; j++)
			again = strncmp(p->env.v[i], p->env.v[j],
					(size_t)(eq - p->env.v[i]) + 1) == 0;
		if (again ||
		    (strncmp(p->env.v[i], "HOME=", 5) == 0 && !p->env.v[i][5]))
			continue;
		env[n++] = strdup(p->env.v[i]);
	}
	if (!home || !*home) {
		auto_free char *dir = find_home(p->uid);

		if (!dir || asprintf(&env[n++], "HOME=%s", dir) < 0)
			env[n - 1] = NULL;
	}
	if (listen && asprintf(&env[n++], "LISTEN_FDS=%u", listen) < 0)
		env[n - 1] = NULL;
	if (listen)
		env[n++] = strdup("LISTEN_PID=1");
	for (size_t i = 0; i < n; i++)
		if (!env[i])
			return error_set(err, ERR_SYSTEM, ENOMEM,
					 "environment");
	return 0;
}

/* CVE-2024-21626: a cwd that a leaked fd made is outside of our root. */
static int check_cwd(const char *cwd, struct error *err)
{
	char now[PATH_MAX];

	if (!getcwd(now, sizeof(now)) || now[0] != '/')
		return error_say(err, ERR_BUNDLE, ENOENT,
				 "process.cwd '%s' is outside of the container "
				 "mount namespace root",
				 cwd);
	return 0;
}

static int enter_cwd(struct process_setup *s, bool last, struct error *err)
{
	const char *cwd = s->process->cwd;
	bool is_missing;

	if (chdir(cwd) == 0 || (s->cwd_is_wish && chdir("/") == 0))
		return check_cwd(cwd, err);
	is_missing = errno == ENOENT && !last && s->makes_cwd;
	if (is_missing) {
		auto_free char *copy = strdup(cwd);

		for (char *p = copy ? strchr(copy + 1, '/') : NULL; p;
		     p = strchr(p + 1, '/')) {
			*p = '\0';
			(void)mkdir(copy, 0755);
			*p = '/';
		}
		if (copy && (mkdir(copy, 0755) == 0 || errno == EEXIST) &&
		    chdir(cwd) == 0) {
			s->made_cwd = strdup(cwd);
			return check_cwd(cwd, err);
		}
	}
	/* A directory that only the payload's user may enter: after setuid. */
	if (errno == EACCES && !last)
		return 1;
	(void)error_set(err, ERR_BUNDLE, errno,
			"cannot change to process.cwd '%s'", cwd);
	return is_missing ? error_hint(err, "it does not exist inside, and "
					    "cannot be made there")
			  : error_code(err);
}

static int check_executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EACCES;
	if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0)
		return 0;
	/* A filter that is loaded already and older than faccessat2(2): execve
	 * will say it. */
	if (errno == EPERM)
		return st.st_mode & 0111 ? 0 : -EACCES;
	return -errno;
}

static int search_path(struct process_setup *s, const char *name,
		       struct error *err)
{
	const char *path = env_value(s->env, "PATH");
	auto_free char *copy = strdup(path ? path : "/bin:/usr/bin");
	int found = -ENOENT;
	char *save = NULL;

	if (!copy)
		return error_set(err, ERR_SYSTEM, ENOMEM, "PATH");
	for (char *dir = strtok_r(copy, ":", &save); dir;
	     dir = strtok_r(NULL, ":", &save)) {
		auto_free char *full = path_join(dir, name);
		int r = full ? check_executable(full) : -ENOMEM;

		if (r == 0) {
			s->program = take_ptr(&full);
			return 0;
		}
		if (r == -EACCES)
			found = r;
	}
	if (found == -EACCES)
		return error_say(err, ERR_EXEC_DENIED, EACCES,
				 "exec: \"%s\": permission denied", name);
	return error_say(err, ERR_EXEC_MISSING, ENOENT,
			 "exec: \"%s\": executable file not found in $PATH: No "
			 "such file or directory",
			 name);
}

static int find_program(struct process_setup *s, struct error *err)
{
	const char *name = s->process->args.v[0];
	int r;

	if (!*name)
		return error_say(err, ERR_EXEC_MISSING, ENOENT,
				 "exec: \"\": executable file not found in "
				 "$PATH: No such file or directory");
	if (!strchr(name, '/'))
		return search_path(s, name, err);
	r = check_executable(name);
	if (r < 0)
		return process_exec_error(name, -r, err);
	s->program = strdup(name);
	if (!s->program)
		return error_set(err, ERR_SYSTEM, ENOMEM, "exec");
	return 0;
}

int process_exec_error(const char *program, int sys, struct error *err)
{
	if (sys == ENOENT || sys == ENOTDIR)
		return error_say(err, ERR_EXEC_MISSING, sys,
				 "exec: \"%s\": stat %s: no such file or "
				 "directory",
				 program, program);
	if (sys == EACCES || sys == EPERM)
		return error_say(err, ERR_EXEC_DENIED, sys,
				 "exec: \"%s\": permission denied", program);
	return error_set(err, ERR_EXEC_DENIED, sys, "exec: \"%s\"", program);
}

/*
 * The host's null device gives way to that of the root, where there is one: who
 * has a descriptor may change mode and owner, here for all of the machine.
 */
static void use_own_null(int fd)
{
	int flags = fcntl(fd, F_GETFL), how = flags & (O_ACCMODE | O_PATH);
	auto_close int own = -1;

	if (flags < 0)
		return;
	own = open("/dev/null",
		   how | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (own >= 0 && fd_is_null_device(own) &&
	    (flags & O_PATH || fcntl(own, F_SETFL, flags) == 0))
		(void)dup2(own, fd);
}

/*
 * Pipes and terminals of the caller become the payload's, so that it can open
 * /dev/stdout again; files keep their owner. A directory would lead to the
 * host's others.
 */
static int settle_stdio(uid_t uid, const struct log_sink *log,
			struct error *err)
{
	struct stat st;

	for (int fd = 0; fd < 3; fd++) {
		if (fstat(fd, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			return error_say(err, ERR_USAGE, EISDIR,
					 "standard stream %d is a directory",
					 fd);
		if (fd_is_null_device(fd))
			use_own_null(fd);
		else if (st.st_uid != uid &&
			 (S_ISFIFO(st.st_mode) ||
			  (S_ISCHR(st.st_mode) && isatty(fd))) &&
			 fchown(fd, uid, (gid_t)-1) < 0)
			log_debug(log, "fd %d keeps its owner: %m", fd);
	}
	return 0;
}

static int set_limits(struct process_setup *s, struct error *err)
{
	const struct spec_process *p = s->process;
	int r = s->beside ? 0 : process_set_scheduler(0, &p->scheduler, err);

	if (r == 0)
		r = process_set_io_priority(&p->io_priority, err);
	if (r == 0 && s->spec)
		r = process_set_memory_policy(&s->spec->memory_policy, err);
	if (r == 0 && s->spec && s->spec->has_personality)
		r = process_set_personality(s->spec->personality, err);
	if (r == 0 && s->keyring)
		r = process_new_keyring(s->keyring, s->log, err);
	if (r == 0)
		r = process_set_rlimits(p->rlimits, p->n_rlimits, err);
	if (r == 0 && p->has_umask)
		(void)umask(p->umask);
	return r;
}

/* crun's, and so podman's --group-add keep-groups. */
static bool keeps_groups(const struct spec *s)
{
	return s && spec_annotation(s, "run.oci.keep_original_groups");
}

static int set_identity(const struct process_setup *s, struct error *err)
{
	const struct spec_process *p = s->process;

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot keep capabilities");
	/* EPERM: a user namespace with setgroups denied has nothing to drop
	 * unless something is asked for. */
	if (!keeps_groups(s->spec) &&
	    setgroups(p->n_additional_gids, p->additional_gids) < 0 &&
	    (errno != EPERM || p->n_additional_gids))
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot set process.user.additionalGids");
	if (setresgid(p->gid, p->gid, p->gid) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot become gid %u: is it mapped?",
				 (unsigned int)p->gid);
	if (setresuid(p->uid, p->uid, p->uid) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot become uid %u: is it mapped?",
				 (unsigned int)p->uid);
	return 0;
}

static int load_filter(struct process_setup *s, struct error *err)
{
	int r = seccomp_program_load(s->filter, err);

	if (r < 0)
		return r;
	if (s->filter->has_notify)
		return s->send_listener(s->data, r, err);
	return 0;
}

/*
 * While we may still open every path. no_new_privs is what lets anybody do
 * this, and does nothing to the changes of identity that follow.
 */
static int set_landlock(struct process_setup *s, struct error *err)
{
	if (!s->spec || !s->spec->landlock.wanted)
		return 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot set no_new_privs");
	return s->n_paths ? confine_paths(s->spec, s->paths, s->n_paths, err)
			  : confine_landlock(s->spec, s->workdirs, err);
}

static int set_privileges(struct process_setup *s, struct error *err)
{
	const struct spec_process *p = s->process;
	bool early = s->filter && (!p->no_new_privileges ||
				   (s->filter->has_notify && s->send_listener));
	int r = 0;

	/* Without no_new_privs a filter needs CAP_SYS_ADMIN, which is about to
	 * go: the profile must allow what follows, as with runc and crun. */
	if (early && !p->no_new_privileges) {
		r = load_filter(s, err);
		if (r < 0)
			return r;
	}
	/* Who has no capability cannot take any out of the bounding set; with
	 * no_new_privs nothing is gained from it either. */
	r = s->n_paths && geteuid() != 0 ? 0
					 : caps_apply_bounding(&p->caps, err);
	if (r == 0)
		r = set_identity(s, err);
	if (r == 0)
		r = caps_apply(&p->caps, err);
	if (r < 0)
		return r;
	if (p->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot set no_new_privs");
	if (early && p->no_new_privileges)
		r = load_filter(s, err);
	if (early)
		s->filter = NULL;
	return r;
}

/*
 * While we may, with or without no_new_privs; and while nothing keeps us from
 * sending, as the bundle's filter could.
 */
static int load_traps(struct process_setup *s, struct error *err)
{
	int fd, r;

	if (!s->traps)
		return 0;
	fd = seccomp_program_load(s->traps, err);
	if (fd < 0)
		return fd;
	r = s->send_traps(s->data, fd, err);
	(void)close(fd);
	return r;
}

int process_enter(struct process_setup *s, struct error *err)
{
	int r = build_env(s, err);

	if (r == 0 && !s->looks_late)
		r = enter_cwd(s, false, err);
	if (r < 0)
		return r;
	s->cwd_is_due = r;
	return load_traps(s, err);
}

/* What is opened later is close-on-exec from birth; and a filter that is older
 * than close_range(2) refuses it. */
static int close_on_exec(const struct process_setup *s, struct error *err)
{
	unsigned int keep = s->preserve_fds;
	int r;

	if (s->pass_listen_fds)
		keep += process_listen_fds();
	r = fd_cloexec_from(3 + keep);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot close fds") : 0;
}

int process_prepare(struct process_setup *s, struct error *err)
{
	int r = settle_stdio(s->process->uid, s->log, err);

	if (r == 0)
		r = close_on_exec(s, err);
	if (r == 0)
		r = process_set_labels(s->process, s->proc_fd, err);
	if (r == 0)
		r = set_limits(s, err);
	if (r == 0)
		r = set_landlock(s, err);
	if (r == 0)
		r = set_privileges(s, err);
	if (r == 0 && s->cwd_is_due)
		r = enter_cwd(s, true, err);
	return r == 0 && !s->looks_late ? find_program(s, err) : r;
}

int process_look(struct process_setup *s, struct error *err)
{
	int r = enter_cwd(s, true, err);

	return r == 0 ? find_program(s, err) : r;
}

static bool is_hung_up(int sock)
{
	struct pollfd p = { .fd = sock };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR));
}

int process_execute(struct process_setup *s, int status_fd, struct error *err)
{
	const struct launcher_way way = {
		.init = s->init,
		.beside = s->beside,
		.takes_terminal = s->process->terminal,
		.dies = s->die_with_parent,
		.go_fd = s->go_fd,
		.fail_fd = s->fail_fd,
	};

	if (s->die_with_parent && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot tie the sandbox to its parent");
	/* No signal comes for a parent that was killed before. */
	if (s->die_with_parent && is_hung_up(status_fd))
		_exit(1);
	return launcher_exec(s->launcher_fd, status_fd,
			     &(struct launcher_filters){ s->judge, s->filter,
							 s->judge_fd,
							 s->filter_fd },
			     way, s->program, s->process->args.v, s->env, err);
}

void process_setup_done(struct process_setup *s)
{
	for (char **e = s->env; e && *e; e++)
		free(*e);
	free(s->env);
	free(s->program);
	free(s->made_cwd);
}
