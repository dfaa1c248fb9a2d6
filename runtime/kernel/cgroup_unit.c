/*
 * A cgroup that systemd owns: the scope "slice:prefix:name" of cgroupsPath.
 *
 * A scope begins with a process. Ours begin with a holder, a child that
 * sleeps, so that init can be cloned into a cgroup that is there and has its
 * limits; then the holder goes. It dies with us, and a scope without processes
 * ends by itself: what a killed create leaves is nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/cgroup_internal.h"
#include "kernel/systemd.h"
#include "spec/spec.h"
#include "spec/unit_property.h"

enum {
	UNIT_NAME_MAX = 255, /* systemd.unit(5) */
	START_TIMEOUT_MS = 30 * 1000,
	STOP_TIMEOUT_MS = 30 * 1000,
	ASK_AFTER_MS = 500,
	START_TRIES = 10,
	START_NAP_MS = 50,
	NAP_MS = 1,
};

#define DEFAULT_PREFIX "sandlock"

static bool is_unit_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr(":-_.\\@", c));
}

bool cgroup_unit_is_valid(const char *unit)
{
	size_t len = strlen(unit);

	if (len == 0 || len > UNIT_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_unit_char(unit[i]))
			return false;
	return true;
}

/* "a-b.slice" is below "a.slice": a dash parts two names. */
static bool is_slice(const char *slice)
{
	size_t len = strlen(slice), n = len - 6;

	if (len <= 6 || !cgroup_unit_is_valid(slice) ||
	    strcmp(slice + n, ".slice") != 0)
		return false;
	if (strcmp(slice, "-.slice") == 0)
		return true;
	return slice[0] != '-' && slice[n - 1] != '-' && !strstr(slice, "--");
}

/*
 * What a unit's name cannot have as "\xXX": systemd.unit(5). An '@' would make
 * it the instance of a template.
 */
static void add_escaped(struct buf *b, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (is_unit_char(text[i]) && !strchr("\\@", text[i]))
			buf_add_char(b, text[i]);
		else
			buf_printf(b, "\\x%02x", (unsigned char)text[i]);
	}
}

/* A scope to be started. */
struct scope {
	char *unit, *slice;
};

static void scope_done(struct scope *s)
{
	free(s->unit);
	free(s->slice);
}

static int path_error(const char *path, struct error *err)
{
	(void)error_say(err, ERR_BUNDLE, EINVAL,
			"cgroupsPath '%s' names no scope of systemd", path);
	return error_hint(err, "it must be 'slice:prefix:name', as "
			       "'system.slice:app:web', or a path with "
			       "--cgroup-manager=cgroupfs");
}

/*
 * Root in a user namespace belongs to the system if that has an init which is
 * of this namespace, as in a system container; an engine without root has not.
 */
static bool is_of_user(const struct cgroup_options *o)
{
	struct stat st;

	return o->rootless &&
	       (geteuid() != 0 || stat("/proc/1", &st) < 0 || st.st_uid != 0);
}

/* An absent cgroupsPath is ":sandlock:NAME". */
static int name_scope(const struct cgroup *c, const struct cgroup_options *o,
		      struct scope *ret, struct error *err)
{
	const char *path = o->path ? o->path : "";
	const char *first = strchr(path, ':');
	const char *second = first ? strchr(first + 1, ':') : NULL;
	const char *name = second ? second + 1 : o->name;
	auto_(buf) struct buf unit = BUF_INIT;

	if (*path &&
	    (!second || !*name || strchr(path, '/') || strchr(name, ':')))
		return path_error(path, err);
	if (!*path)
		buf_add_str(&unit, DEFAULT_PREFIX "-");
	else if (second > first + 1) {
		add_escaped(&unit, first + 1, (size_t)(second - first - 1));
		buf_add_char(&unit, '-');
	}
	add_escaped(&unit, name, strlen(name));
	buf_add_str(&unit, ".scope");
	if (first && first > path)
		ret->slice = strncmp(path, "-:", 2) == 0
				     ? strdup("-.slice")
				     : strndup(path, (size_t)(first - path));
	else
		ret->slice = strdup(c->user ? "user.slice" : "system.slice");
	ret->unit = buf_take(&unit, NULL);
	if (!ret->slice || !ret->unit)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot choose a unit");
	if (strlen(ret->unit) > UNIT_NAME_MAX)
		return error_say(err, ERR_BUNDLE, ENAMETOOLONG,
				 "the unit '%.64s...' has too long a name",
				 ret->unit);
	return is_slice(ret->slice) ? 0 : path_error(path, err);
}

static void __attribute__((noreturn)) hold(pid_t parent)
{
	sigset_t all;

	/* The handlers are our parent's. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)fd_close_others(0, NULL, 0);
	if (getppid() != parent)
		_exit(1);
	for (;;)
		(void)pause();
}

static int start_holder(struct cgroup *c, struct error *err)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0)
		hold(parent);
	if (pid < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot start a process for a scope");
	c->holder = pid;
	return 0;
}

void cgroup_settle(struct cgroup *c)
{
	if (c->holder <= 0)
		return;
	(void)kill(c->holder, SIGKILL);
	while (waitpid(c->holder, NULL, 0) < 0 && errno == EINTR)
		;
	c->holder = 0;
}

static int add_annotations(const struct cgroup_options *o,
			   struct systemd_props *p, struct error *err)
{
	size_t len = strlen(SPEC_UNIT_PROPERTY);

	for (size_t i = 0; i < o->n_annotations; i++) {
		const struct spec_pair *a = &o->annotations[i];
		int r;

		if (strncmp(a->key, SPEC_UNIT_PROPERTY, len) != 0)
			continue;
		r = unit_property_parse(a->key + len, a->value, &p->words, err);
		if (r < 0)
			return r;
		p->n++;
	}
	return 0;
}

/* Of two values of one property systemd takes the later. */
static int collect(const struct cgroup *c, const struct cgroup_options *o,
		   const struct scope *s, struct systemd_props *p,
		   struct error *err)
{
	auto_free char *text = NULL;
	int r;

	if (asprintf(&text, "sandlock container %s", o->name) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "unit properties");
	systemd_add_text(p, "Description", text);
	systemd_add_text(p, "Slice", s->slice);
	systemd_add_bool(p, "Delegate", true);
	systemd_add_bool(p, "DefaultDependencies", false);
	systemd_add_bool(p, "MemoryAccounting", true);
	systemd_add_bool(p, "CPUAccounting", true);
	systemd_add_bool(p, "TasksAccounting", true);
	systemd_add_bool(
		p, c->mode == CGROUP_V2 ? "IOAccounting" : "BlockIOAccounting",
		true);
	systemd_add_pid(p, "PIDs", c->holder);
	r = o->resources ? cgroup_unit_limits(c, o->resources, p, err) : 0;
	return r == 0 ? add_annotations(o, p, err) : r;
}

/* A unit that has ended or failed may still have the name, for a while. */
static int start_scope(const struct cgroup *c, const struct scope *s,
		       const struct systemd_props *p, struct error *err)
{
	enum systemd_state state;
	int r;

	for (int i = 0;; i++) {
		r = systemd_start_scope(c->user, s->unit, p, err);
		if (r != -EIO || i == START_TRIES ||
		    systemd_state(c->user, s->unit, &state, NULL) < 0)
			return r;
		if (state == SYSTEMD_STARTED)
			return error_say(err, ERR_STATE, EBUSY,
					 "container's cgroup is not empty: "
					 "'%s' is started already",
					 s->unit);
		if (state == SYSTEMD_ENDED)
			(void)systemd_reset_failed(c->user, s->unit, NULL);
		/* It had the name, but it has ended by now, or is about to. */
		else if (!strstr(err->msg, " already "))
			return r;
		(void)poll(NULL, 0, START_NAP_MS);
	}
}

/* The hierarchy that systemd itself looks at. */
static const char *tracking_hierarchy(const struct cgroup *c)
{
	return c->mode == CGROUP_V1 ? "name=systemd" : "";
}

static bool is_unit_path(const char *path, const char *unit)
{
	const char *last = strrchr(path, '/');

	return last && strcmp(last + 1, unit) == 0 && !strstr(path, "/..");
}

static int never_started(const struct cgroup *c, const char *why,
			 struct error *err)
{
	(void)error_say(err, ERR_SYSTEM, ECANCELED,
			"systemd did not start '%s': %s", c->unit, why);
	return error_hint(err, "see 'systemctl %sstatus %s'",
			  c->user ? "--user " : "", c->unit);
}

/*
 * The job is done when the holder is in the unit: systemd sets limits before.
 * That is looked at, which costs nothing; systemd is asked now and then.
 */
static int wait_started(struct cgroup *c, struct error *err)
{
	int64_t begin = clock_now_ms(), ask = begin + ASK_AFTER_MS;

	for (;;) {
		auto_free char *path = NULL;
		enum systemd_state state = SYSTEMD_WAITING;
		int64_t now;

		if (cgroup_path_of(c->holder, tracking_hierarchy(c), &path) ==
			    0 &&
		    is_unit_path(path, c->unit)) {
			c->path = take_ptr(&path);
			return 0;
		}
		now = clock_now_ms();
		if (now >= begin + START_TIMEOUT_MS)
			return never_started(c, "its job takes too long", err);
		if (now >= ask) {
			if (systemd_state(c->user, c->unit, &state, err) < 0)
				return error_code(err);
			ask = clock_now_ms() + ASK_AFTER_MS;
		}
		if (state == SYSTEMD_ABSENT || state == SYSTEMD_ENDED)
			return never_started(c, "its job has failed", err);
		(void)poll(NULL, 0, NAP_MS);
	}
}

/* v1: where systemd has put the holder there is a cgroup for init, too. */
static int take_controllers(struct cgroup *c, struct error *err)
{
	for (int i = CTL_FREEZER; c->mode != CGROUP_V2 && i < CTL_COUNT; i++) {
		auto_free char *path = NULL;
		int r = cgroup_path_of(c->holder,
				       i == CTL_SYSTEMD ? "name=systemd"
							: cgroup_ctls[i].v1,
				       &path);

		if (r < 0 || strcmp(path, c->path) != 0)
			continue;
		r = cgroup_node_make(c, (enum cgroup_ctl)i, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* 0 if it is not there. */
static uint64_t member_inode(const struct cgroup *c)
{
	const struct cgroup_node *n = cgroup_member_node(c);
	struct stat st;

	return n && stat(n->dir, &st) == 0 ? st.st_ino : 0;
}

bool cgroup_unit_is_anothers(const struct cgroup *c)
{
	uint64_t now = c->unit && c->id ? member_inode(c) : 0;

	return now && now != c->id;
}

int cgroup_unit_make(struct cgroup *c, const struct cgroup_options *o,
		     struct error *err)
{
	auto_(systemd_props) struct systemd_props p = SYSTEMD_PROPS_INIT;
	auto_(scope) struct scope s = { NULL, NULL };
	struct error local = ERROR_INIT;
	struct error *e = err ? err : &local;
	int r;

	c->user = is_of_user(o);
	r = name_scope(c, o, &s, e);
	if (r == 0)
		r = start_holder(c, e);
	if (r == 0)
		r = collect(c, o, &s, &p, e);
	if (r == 0)
		r = start_scope(c, &s, &p, e);
	if (r < 0)
		return r;
	c->unit = take_ptr(&s.unit);
	r = wait_started(c, e);
	if (r == 0)
		r = take_controllers(c, e);
	if (r == 0)
		r = cgroup_make_membership(c, e);
	if (r == 0)
		c->id = member_inode(c);
	return r;
}

int cgroup_unit_update(const struct cgroup *c, const struct spec_resources *r,
		       struct error *err)
{
	auto_(systemd_props) struct systemd_props p = SYSTEMD_PROPS_INIT;
	int e = cgroup_unit_limits(c, r, &p, err);

	return e == 0 ? systemd_set(c->user, c->unit, &p, err) : e;
}

int cgroup_unit_attach(const struct cgroup *c, pid_t pid, struct error *err)
{
	return systemd_attach(c->user, c->unit, pid, err);
}

static bool is_there(const struct cgroup *c)
{
	return member_inode(c) && !cgroup_unit_is_anothers(c);
}

/*
 * A scope whose processes have ended is gone already, mostly, or has failed and
 * is remembered for it; that it cannot be stopped any more is no error.
 */
int cgroup_unit_stop(struct cgroup *c, struct error *err)
{
	int64_t end = clock_now_ms() + STOP_TIMEOUT_MS;
	int r = 0;

	cgroup_settle(c);
	if (!c->path || is_there(c))
		r = systemd_stop(c->user, c->unit, err);
	while (r == 0 && is_there(c)) {
		if (clock_now_ms() >= end)
			return error_say(err, ERR_TIMEOUT, ETIMEDOUT,
					 "systemd did not stop '%s' within %d "
					 "s",
					 c->unit, STOP_TIMEOUT_MS / 1000);
		(void)poll(NULL, 0, NAP_MS);
	}
	if (r < 0 && !is_there(c))
		r = 0;
	if (r == 0)
		(void)systemd_reset_failed(c->user, c->unit, NULL);
	return r;
}
