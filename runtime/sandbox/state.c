#include "sandbox/state.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/utc.h"
#include "kernel/cgroup.h"
#include "kernel/tree.h"
#include "spec/spec.h"
#include "spec/state.h"

static const struct json_limits state_limits = {
	.bytes = LIMIT_STATE_BYTES,
	.depth = 16,
	.values = LIMIT_CONFIG_VALUES,
};

const char *sandbox_status_name(enum sandbox_status s)
{
	switch (s) {
	case STATUS_CREATING:
		return "creating";
	case STATUS_CREATED:
		return "created";
	case STATUS_RUNNING:
		return "running";
	case STATUS_PAUSED:
		return "paused";
	case STATUS_STOPPED:
		return "stopped";
	}
	return "stopped";
}

static void write_strings(struct json_out *o, const char *key,
			  const struct spec_strings *list)
{
	if (!list->n)
		return;
	json_out_key(o, key);
	json_out_array(o);
	for (size_t i = 0; i < list->n; i++)
		json_out_bytes(o, list->v[i], strlen(list->v[i]));
	json_out_array_end(o);
}

int state_write(struct rundir_slot *slot, const struct sandbox_state *s,
		struct error *err)
{
	struct json_out *o = json_out_new(true);
	auto_(buf) struct buf b = BUF_INIT;
	int r;

	if (!o)
		return error_set(err, ERR_SYSTEM, ENOMEM, "state of '%s'",
				 s->name);
	json_out_object(o);
	json_out_int_member(o, "version", 1);
	json_out_str_member(o, "name", s->name);
	json_out_str_member(o, "bundle", s->bundle);
	json_out_str_member(o, "rootfs", s->rootfs);
	write_strings(o, "workdirs", &s->workdirs);
	json_out_str_member(o, "created", s->created);
	if (s->command)
		json_out_str_member(o, "command", s->command);
	json_out_uint_member(o, "owner", s->owner);
	json_out_int_member(o, "pid", s->init.pid);
	json_out_uint_member(o, "start_time", s->init.start_time);
	json_out_str_member(o, "boot_id", s->boot_id);
	json_out_bool_member(o, "ready", s->ready);
	json_out_bool_member(o, "ephemeral", s->ephemeral);
	json_out_bool_member(o, "host", s->host);
	json_out_bool_member(o, "notify", s->notify);
	if (s->scratch)
		json_out_str_member(o, "scratch", s->scratch);
	json_out_bool_member(o, "pid_ns", s->pid_ns);
	json_out_bool_member(o, "trapped", s->trapped);
	if (s->judged)
		json_out_uint_member(o, "judged", s->judged);
	write_strings(o, "handled", &s->handled);
	json_out_bool_member(o, "remaps", s->remaps);
	if (s->store)
		json_out_str_member(o, "store", s->store);
	if (s->cgroup) {
		json_out_key(o, "cgroup");
		cgroup_to_json(s->cgroup, o);
	}
	json_out_object_end(o);
	r = json_out_end(o, &b);
	json_out_free(o);
	if (r == 0)
		r = fd_write_atomic(rundir_slot_fd(slot), "state.json", b.data,
				    b.len, 0600, false);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot write '%s/state.json'",
				 rundir_slot_path(slot));
	return 0;
}

static char *dup_member(const struct json *j, const char *key)
{
	const char *s = json_str_or(j, key, NULL);

	return s ? strdup(s) : NULL;
}

static int fill_strings(const struct json *j, const char *key,
			struct spec_strings *ret)
{
	const struct json *list = json_get(j, key);
	int r = 0;

	for (size_t i = 0;
	     r == 0 && list && list->type == JSON_ARRAY && i < list->n; i++)
		if (list->items[i].type == JSON_STRING)
			r = spec_strings_add(ret, list->items[i].text);
	return r;
}

static int fill_state(const struct json *j, struct sandbox_state *s,
		      struct error *err)
{
	const struct json *start = json_get(j, "start_time");
	const struct json *cg = json_get(j, "cgroup");

	s->name = dup_member(j, "name");
	s->bundle = dup_member(j, "bundle");
	s->rootfs = dup_member(j, "rootfs");
	s->created = dup_member(j, "created");
	s->command = dup_member(j, "command");
	s->store = dup_member(j, "store");
	s->owner = (uid_t)json_int_or(j, "owner", 0);
	s->init.pid = (pid_t)json_int_or(j, "pid", 0);
	s->ready = json_bool_or(j, "ready", false);
	s->ephemeral = json_bool_or(j, "ephemeral", false);
	s->host = json_bool_or(j, "host", false);
	s->notify = json_bool_or(j, "notify", false);
	s->scratch = dup_member(j, "scratch");
	s->pid_ns = json_bool_or(j, "pid_ns", false);
	s->trapped = json_bool_or(j, "trapped", false);
	s->judged = (unsigned int)json_int_or(j, "judged", 0);
	s->remaps = json_bool_or(j, "remaps", false);
	(void)snprintf(s->boot_id, sizeof(s->boot_id), "%s",
		       json_str_or(j, "boot_id", ""));
	if (!s->name || !s->bundle || !s->rootfs || !s->created || !start ||
	    json_uint64(start, &s->init.start_time) < 0 ||
	    fill_strings(j, "workdirs", &s->workdirs) < 0 ||
	    fill_strings(j, "handled", &s->handled) < 0)
		return error_say(err, ERR_TORN, EINVAL,
				 "state.json is not one of ours");
	return cg ? cgroup_from_json(cg, &s->cgroup, err) : 0;
}

/* Nobody can tell what runs there, but the process can be named. */
static int hint_damaged(const struct rundir_slot *slot, struct error *err)
{
	pid_t init, server;

	if (rundir_read_pids(slot, &init, &server) < 0)
		return error_hint(err,
				  "'sandlock delete --force %s' removes it",
				  rundir_slot_name(slot));
	return error_hint(err,
			  "if process %d is its first, end that, then "
			  "'sandlock delete --force %s'",
			  (int)init, rundir_slot_name(slot));
}

int state_read(const struct rundir_slot *slot, struct sandbox_state **ret,
	       struct error *err)
{
	auto_ptr(state_free) struct sandbox_state *s = calloc(1, sizeof(*s));
	auto_(buf) struct buf b = BUF_INIT;
	struct json *j = NULL;
	int r;

	if (!s)
		return error_set(err, ERR_SYSTEM, ENOMEM, "state");
	r = fd_read_own(rundir_slot_fd(slot), "state.json", LIMIT_STATE_BYTES,
			&b);
	if (r == -ENOENT) {
		(void)error_say(err, ERR_STATE, ENOENT,
				"container \"%s\" is not made yet",
				rundir_slot_name(slot));
		return error_hint(err, "if its create was killed: delete "
				       "--force");
	}
	if (r < 0) {
		(void)error_set(err, ERR_SYSTEM, -r,
				"cannot read '%s/state.json'",
				rundir_slot_path(slot));
		return hint_damaged(slot, err);
	}
	r = json_parse(b.data, b.len, &state_limits, "state.json", &j, err);
	if (r == 0)
		r = fill_state(j, s, err);
	json_free(j);
	if (r < 0) {
		(void)error_wrap(err, "container \"%s\"",
				 rundir_slot_name(slot));
		return hint_damaged(slot, err);
	}
	*ret = take_ptr(&s);
	return 0;
}

void state_free(struct sandbox_state *s)
{
	if (!s)
		return;
	cgroup_free(s->cgroup);
	free(s->name);
	free(s->bundle);
	free(s->rootfs);
	spec_strings_done(&s->workdirs);
	spec_strings_done(&s->handled);
	free(s->created);
	free(s->command);
	free(s->store);
	free(s->scratch);
	free(s);
}

bool state_is_alive(const struct sandbox_state *s)
{
	char boot[BOOT_ID_LEN + 1];

	if (!s->init.pid || proc_boot_id(boot) < 0 ||
	    strcmp(boot, s->boot_id) != 0)
		return false;
	return proc_is_alive(&s->init);
}

enum sandbox_status state_status(const struct rundir_slot *slot,
				 const struct sandbox_state *s)
{
	if (!state_is_alive(s))
		return STATUS_STOPPED;
	if (!s->ready)
		return STATUS_CREATING;
	if (s->cgroup && cgroup_is_frozen(s->cgroup))
		return STATUS_PAUSED;
	if (faccessat(rundir_slot_fd(slot), "exec.fifo", F_OK,
		      AT_SYMLINK_NOFOLLOW) == 0)
		return STATUS_CREATED;
	return STATUS_RUNNING;
}

int state_load_spec(const struct rundir_slot *slot,
		    const struct sandbox_state *s, const struct log_sink *log,
		    struct spec **ret, struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	int r = fd_read_own(rundir_slot_fd(slot), "config.json",
			    LIMIT_CONFIG_BYTES, &b);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot read '%s/config.json'",
				 rundir_slot_path(slot));
	return spec_parse(b.data, b.len, s->bundle, log, ret, err);
}

static struct state_view view_of(const struct sandbox_state *s,
				 const struct spec *spec, const char *status,
				 pid_t pid)
{
	return (struct state_view){
		.oci_version = spec->oci_version,
		.id = s->name,
		.pid = pid,
		.status = status,
		.bundle = s->bundle,
		.rootfs = s->rootfs,
		.created = s->created,
		.annotations = spec->annotations,
		.n_annotations = spec->n_annotations,
		.owner = "",
	};
}

int state_to_json(const struct sandbox_state *s, const struct spec *spec,
		  const char *status, pid_t pid, bool pretty, struct buf *ret,
		  struct error *err)
{
	struct state_view v = view_of(s, spec, status, pid);
	int r = state_json(&v, pretty, ret);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "state of '%s'", s->name);
	return 0;
}

int state_to_seccomp_json(const struct sandbox_state *s,
			  const struct spec *spec, pid_t pid, struct buf *ret,
			  struct error *err)
{
	struct state_view v = view_of(s, spec, "creating", s->init.pid);
	int r = state_seccomp_json(&v, pid, spec->seccomp->listener_metadata,
				   ret);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "state of '%s'", s->name);
	return 0;
}

int state_now(char **ret)
{
	struct timespec ts;
	char text[UTC_MAX];

	if (clock_gettime(CLOCK_REALTIME, &ts) < 0)
		return -errno;
	*ret = strdup(utc_text(&ts, 9, text));
	return *ret ? 0 : -ENOMEM;
}

int state_pause(const struct sandbox_state *s, enum sandbox_status status,
		bool pause, struct error *err)
{
	bool can = status == STATUS_RUNNING || status == STATUS_CREATED;

	if (!s->cgroup || !cgroup_can_freeze(s->cgroup)) {
		(void)error_say(err, ERR_UNSUPPORTED, ENOTSUP,
				"cannot %s '%s': it has no cgroup that can be "
				"frozen",
				pause ? "pause" : "resume", s->name);
		return error_hint(err, "an ordinary user needs a delegated "
				       "cgroup");
	}
	if (pause && !can)
		return error_say(err, ERR_STATE, EINVAL,
				 "container not running or created: '%s' is %s",
				 s->name, sandbox_status_name(status));
	if (!pause && status != STATUS_PAUSED)
		return error_say(err, ERR_STATE, EINVAL,
				 "container not paused: '%s' is %s", s->name,
				 sandbox_status_name(status));
	return pause ? cgroup_freeze(s->cgroup, err)
		     : cgroup_thaw(s->cgroup, err);
}

/* Every process in init's pid namespace, for a sandbox without a cgroup. */
static int pids_by_namespace(pid_t init, pid_t **ret, size_t *ret_n,
			     struct error *err)
{
	auto_dir DIR *proc = opendir("/proc");
	auto_free pid_t *pids = NULL;
	char path[64], ours[64], theirs[64];
	size_t n = 0, cap = 0;
	ssize_t len;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)init);
	len = readlink(path, ours, sizeof(ours) - 1);
	if (!proc || len < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot read /proc");
	ours[len] = '\0';
	for (struct dirent *e = readdir(proc); e; e = readdir(proc)) {
		long pid = strtol(e->d_name, NULL, 10);

		if (pid <= 0)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%ld/ns/pid", pid);
		len = readlink(path, theirs, sizeof(theirs) - 1);
		if (len < 0)
			continue;
		theirs[len] = '\0';
		if (strcmp(ours, theirs) != 0)
			continue;
		if (n == cap) {
			pid_t *more;

			cap = cap ? cap * 2 : 16;
			more = realloc(pids, cap * sizeof(*pids));
			if (!more)
				return error_set(err, ERR_SYSTEM, ENOMEM, "ps");
			pids = more;
		}
		pids[n++] = (pid_t)pid;
	}
	*ret = take_ptr(&pids);
	*ret_n = n;
	return 0;
}

int state_pids(const struct sandbox_state *s, pid_t **ret, size_t *ret_n,
	       struct error *err)
{
	/* Guard and standby are ours, and may be in the cgroup. */
	if (s->notify) {
		int r = tree_list(s->init.pid, ret, ret_n);

		return r < 0 ? error_set(err, ERR_SYSTEM, -r,
					 "cannot read /proc")
			     : 0;
	}
	if (s->cgroup && cgroup_has_membership(s->cgroup))
		return cgroup_pids(s->cgroup, ret, ret_n, err);
	return pids_by_namespace(s->init.pid, ret, ret_n, err);
}
