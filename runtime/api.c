/*
 * The functions of include/sandlock.h: nothing but translation between the
 * public types, which never change, and ours, which may.
 */
#include "sandlock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "kernel/seccomp.h"
#include "policy/syscalls.h"
#include "sandbox/confine.h"
#include "sandbox/host.h"
#include "spec/features.h"
#include "spec/request.h"

/* One numbering on both sides; a new kind is added at the end of both. */
_Static_assert((int)SANDLOCK_ERR_TIMEOUT == (int)ERR_TIMEOUT,
	       "error kinds differ");
_Static_assert((int)SANDLOCK_DEFER == (int)DISPOSE_DEFER,
	       "dispositions differ");
_Static_assert((int)SANDLOCK_EXIT_QUOTA == (int)EXIT_QUOTA,
	       "exit kinds differ");
_Static_assert((int)SANDLOCK_OUTCOME_EMPTY == (int)SANDBOX_EMPTY,
	       "outcomes differ");
_Static_assert((int)SANDLOCK_LOG_DEBUG == (int)LOG_LEVEL_DEBUG,
	       "log levels differ");
_Static_assert((int)SANDLOCK_BRANCH_ASKED == (int)BRANCH_CHOICE_ASKED,
	       "branch choices differ");

int api_result(int r, const struct error *from, struct sandlock_error *to)
{
	if (!to)
		return r;
	*to = (struct sandlock_error){ .kind = SANDLOCK_ERR_NONE };
	if (r < 0) {
		to->kind = (enum sandlock_error_kind)from->kind;
		to->sys = from->sys;
		(void)snprintf(to->msg, sizeof(to->msg), "%s", from->msg);
		(void)snprintf(to->hint, sizeof(to->hint), "%s", from->hint);
	}
	return r;
}

static void forward_log(void *data, enum log_level level, const char *msg)
{
	const struct sandlock_env *env = data;

	if (env->log)
		env->log(env->log_data, (enum sandlock_log_level)level, msg);
}

void api_env_init(struct api_env *a, const struct sandlock_env *env)
{
	static const struct sandlock_env defaults;

	if (!env)
		env = &defaults;
	a->sink = (struct log_sink){ forward_log, (void *)env };
	a->env = (struct sandbox_env){
		.root = env->root,
		.store = env->store,
		.program = env->program,
		.log = &a->sink,
		.stop_fd = env->stop_fd,
	};
}

API const char *sandlock_version(void)
{
	return SANDLOCK_VERSION;
}

API const char *sandlock_libseccomp_version(void)
{
	return seccomp_library_version();
}

API int sandlock_features(char **ret_json, struct sandlock_error *err)
{
	const struct features_input in = {
		.version = SANDLOCK_VERSION,
		.libseccomp_version = seccomp_library_version(),
		.seccomp_actions = seccomp_action_names(),
		.seccomp_operators = seccomp_operator_names(),
		.seccomp_archs = seccomp_arch_names(),
		.seccomp_known_flags = seccomp_flag_names(),
		.seccomp_supported_flags = seccomp_supported_flag_names(),
		.apparmor = true,
		.selinux = true,
	};
	auto_(buf) struct buf text = BUF_INIT;
	struct error e = ERROR_INIT;
	char *json = NULL;

	if (features_json(&in, &text) == 0)
		json = buf_take(&text, NULL);
	if (!json)
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM,
					    "cannot describe the features"),
				  &e, err);
	*ret_json = json;
	return api_result(0, &e, err);
}

static struct sandbox_bundle bundle_of(const struct sandlock_bundle *b)
{
	return (struct sandbox_bundle){
		.name = b->name,
		.bundle = b->bundle,
		.config = b->config,
		.console_socket = b->console_socket,
		.pidfd_socket = b->pidfd_socket,
		.pid_file = b->pid_file,
		.no_pivot = b->no_pivot,
		.no_new_keyring = b->no_new_keyring,
		.disable_cgroups = b->disable_cgroups,
		.systemd_cgroup = b->systemd_cgroup,
		.preserve_fds = b->preserve_fds,
		.branch = (enum branch_choice)b->branch,
		.on_exit = (enum disposition)b->on_exit,
		.on_error = (enum disposition)b->on_error,
		.storage = b->storage,
		.durable = b->durable,
		.quota_bytes = b->quota_bytes,
		.detach = b->detach,
		.keep = b->keep,
		.no_control_socket = b->no_control_socket,
		.no_supervisor = b->no_supervisor,
		.request = b->request ? b->request->request : NULL,
	};
}

void api_result_of(const struct sandbox_result *from,
		   struct sandlock_result *to)
{
	*to = (struct sandlock_result){
		.exit_kind = (enum sandlock_exit_kind)from->status.kind,
		.exit_value = from->status.value,
		.outcome = (enum sandlock_outcome)from->outcome,
		.n_changes = from->n_changes,
		.quota_bytes = from->quota_bytes,
		.quota_used = from->quota_used,
	};
	(void)api_result(from->outcome_error.kind == ERR_NONE ? 0 : -1,
			 &from->outcome_error, &to->outcome_error);
	(void)snprintf(to->name, sizeof(to->name), "%s", from->name);
}

API int sandlock_create(const struct sandlock_env *env,
			const struct sandlock_bundle *b,
			struct sandlock_error *err)
{
	struct sandbox_bundle bundle = bundle_of(b);
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_create(&a.env, &bundle, &e), &e, err);
}

API int sandlock_run(const struct sandlock_env *env,
		     const struct sandlock_bundle *b,
		     struct sandlock_result *ret, struct sandlock_error *err)
{
	struct sandbox_bundle bundle = bundle_of(b);
	struct sandbox_result result;
	struct error e = ERROR_INIT;
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = sandbox_run(&a.env, &bundle, &result, &e);
	api_result_of(&result, ret);
	return api_result(r, &e, err);
}

API struct sandlock_request *sandlock_request_new(void)
{
	struct sandlock_request *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->request = request_new();
	if (!q->request) {
		free(q);
		return NULL;
	}
	return q;
}

API void sandlock_request_free(struct sandlock_request *q)
{
	if (!q)
		return;
	request_free(q->request);
	free(q);
}

API int sandlock_request_set(struct sandlock_request *q, const char *key,
			     const char *value, const char *where,
			     struct sandlock_error *err)
{
	struct error e = ERROR_INIT;

	return api_result(request_set(q->request, key, value, where, &e), &e,
			  err);
}

API void sandlock_request_clear(struct sandlock_request *q, const char *key)
{
	request_clear(q->request, key);
}

API int sandlock_request_load(struct sandlock_request *q,
			      const char *name_or_path, bool is_path,
			      struct sandlock_error *err)
{
	struct error e = ERROR_INIT;

	return api_result(profile_load(q->request, name_or_path, is_path, &e),
			  &e, err);
}

API int sandlock_request_load_stage(struct sandlock_request *q,
				    const char *path, size_t i, size_t *ret_n,
				    struct sandlock_error *err)
{
	struct error e = ERROR_INIT;

	return api_result(profile_load_stage(q->request, path, i, ret_n, &e),
			  &e, err);
}

API int sandlock_request_check(const struct sandlock_request *q,
			       struct sandlock_error *err)
{
	struct error e = ERROR_INIT;

	return api_result(host_check(q->request, &e), &e, err);
}

API int sandlock_profiles(char ***ret, size_t *ret_n,
			  struct sandlock_error *err)
{
	struct error e = ERROR_INIT;

	return api_result(profile_list(ret, ret_n, &e), &e, err);
}

API int sandlock_profile_path(const char *name, char **ret,
			      struct sandlock_error *err)
{
	struct error e = ERROR_INIT;

	return api_result(profile_path(name, ret, &e), &e, err);
}

API int sandlock_request_json(const struct sandlock_request *q, char **ret_json,
			      struct sandlock_error *err)
{
	struct json_out *o = json_out_new(false);
	auto_(buf) struct buf b = BUF_INIT;
	struct error e = ERROR_INIT;
	char *text = NULL;
	int r;

	json_out_object(o);
	request_to_json(q->request, o);
	json_out_object_end(o);
	r = json_out_end(o, &b);
	json_out_free(o);
	if (r == 0)
		text = buf_take(&b, NULL);
	if (!text)
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM, "JSON"), &e,
				  err);
	*ret_json = text;
	return 0;
}

API void sandlock_request_on_changes(struct sandlock_request *q,
				     sandlock_change_fn *fn, void *data)
{
	q->on_change = fn;
	q->data = data;
}

API void sandlock_request_on_denials(struct sandlock_request *q,
				     sandlock_denial_fn *fn, void *data)
{
	q->on_denial = fn;
	q->denial_data = data;
}

API void sandlock_request_set_bundle(struct sandlock_request *q,
				     const struct sandlock_bundle *b)
{
	q->bundle = bundle_of(b);
	q->has_bundle = true;
}

API int sandlock_run_command(const struct sandlock_env *env,
			     struct sandlock_request *q, bool terminal,
			     struct sandlock_result *ret,
			     struct sandlock_error *err)
{
	struct api_changes forward = { q->on_change, q->data };
	struct api_denials denials = { q->on_denial, q->denial_data };
	struct command_options o = {
		.request = q->request,
		.bundle = q->has_bundle ? &q->bundle : NULL,
		.terminal = terminal,
		.on_change = q->on_change ? api_forward_change : NULL,
		.data = &forward,
		.on_denial = q->on_denial ? api_forward_denial : NULL,
		.denial_data = &denials,
	};
	struct sandbox_result result;
	struct error e = ERROR_INIT;
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = sandbox_run_command(&a.env, &o, &result, &e);
	api_result_of(&result, ret);
	return api_result(r, &e, err);
}

API int sandlock_start(const struct sandlock_env *env, const char *name,
		       struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_start(&a.env, name, &e), &e, err);
}

API int sandlock_exec(const struct sandlock_env *env, const char *name,
		      const struct sandlock_exec *x,
		      struct sandlock_result *ret, struct sandlock_error *err)
{
	struct sandbox_exec exec = {
		.process_file = x->process_file,
		.args = x->args,
		.cwd = x->cwd,
		.user = x->user,
		.env = x->env,
		.caps = x->caps,
		.additional_gids = x->additional_gids,
		.n_additional_gids = x->n_additional_gids,
		.terminal = x->terminal,
		.no_new_privs = x->no_new_privs,
		.apparmor = x->apparmor,
		.process_label = x->process_label,
		.console_socket = x->console_socket,
		.pidfd_socket = x->pidfd_socket,
		.pid_file = x->pid_file,
		.cgroups = x->cgroups,
		.preserve_fds = x->preserve_fds,
		.ignore_paused = x->ignore_paused,
		.detach = x->detach,
	};
	struct sandbox_result result;
	struct error e = ERROR_INIT;
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = sandbox_exec(&a.env, name, &exec, &result, &e);
	api_result_of(&result, ret);
	return api_result(r, &e, err);
}

API int sandlock_kill(const struct sandlock_env *env, const char *name, int sig,
		      bool all, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_kill(&a.env, name, sig, all, &e), &e, err);
}

API int sandlock_kill_tree(const struct sandlock_env *env, const char *name,
			   struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_kill_tree(&a.env, name, &e), &e, err);
}

API int sandlock_delete(const struct sandlock_env *env, const char *name,
			bool force, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_delete(&a.env, name, force, &e), &e, err);
}

API int sandlock_pause(const struct sandlock_env *env, const char *name,
		       struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_pause(&a.env, name, true, &e), &e, err);
}

API int sandlock_resume(const struct sandlock_env *env, const char *name,
			struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_pause(&a.env, name, false, &e), &e, err);
}

API int sandlock_update(const struct sandlock_env *env, const char *name,
			const char *resources, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_update(&a.env, name, resources, &e), &e, err);
}

/* Hands the text of a buffer over as the caller's string. */
static int give_text(int r, struct buf *b, char **ret, struct error *e)
{
	char *text;

	if (r < 0)
		return r;
	text = buf_take(b, NULL);
	if (!text)
		return error_set(e, ERR_SYSTEM, ENOMEM, "result");
	*ret = text;
	return 0;
}

static int say(const struct sandlock_env *env, const char *name,
	       int (*write)(const struct sandbox_env *env, const char *name,
			    struct buf *ret, struct error *err),
	       char **ret, struct sandlock_error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct error e = ERROR_INIT;
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = write(&a.env, name, &b, &e);
	return api_result(give_text(r, &b, ret, &e), &e, err);
}

API int sandlock_stats(const struct sandlock_env *env, const char *name,
		       char **ret_json, struct sandlock_error *err)
{
	return say(env, name, sandbox_stats, ret_json, err);
}

API int sandlock_oom_kills(const struct sandlock_env *env, const char *name,
			   uint64_t *ret, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_oom_kills(&a.env, name, ret, &e), &e, err);
}

API int sandlock_state(const struct sandlock_env *env, const char *name,
		       char **ret_json, struct sandlock_error *err)
{
	return say(env, name, sandbox_state_json, ret_json, err);
}

API int sandlock_inspect(const struct sandlock_env *env, const char *name,
			 bool toml, char **ret, struct sandlock_error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct error e = ERROR_INIT;
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = sandbox_inspect(&a.env, name, toml, &b, &e);
	return api_result(give_text(r, &b, ret, &e), &e, err);
}

API int sandlock_ports(const struct sandlock_env *env, const char *name,
		       char **ret_json, struct sandlock_error *err)
{
	return say(env, name, sandbox_ports, ret_json, err);
}

API int sandlock_pids(const struct sandlock_env *env, const char *name,
		      pid_t **ret, size_t *ret_n, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(sandbox_pids(&a.env, name, ret, ret_n, &e), &e, err);
}

API int sandlock_list(const struct sandlock_env *env, bool with_ended,
		      struct sandlock_info **ret, size_t *ret_n,
		      struct sandlock_error *err)
{
	struct sandbox_info *v = NULL;
	struct sandlock_info *out;
	struct error e = ERROR_INIT;
	struct api_env a;
	size_t n = 0;
	int r;

	api_env_init(&a, env);
	r = sandbox_list(&a.env, with_ended, &v, &n, &e);
	if (r < 0)
		return api_result(r, &e, err);
	out = calloc(n + 1, sizeof(*out));
	if (!out) {
		sandbox_list_free(v, n);
		r = error_set(&e, ERR_SYSTEM, ENOMEM, "list");
		return api_result(r, &e, err);
	}
	for (size_t i = 0; i < n; i++)
		out[i] = (struct sandlock_info){
			.name = v[i].name,
			.pid = v[i].pid,
			.status = v[i].status,
			.bundle = v[i].bundle,
			.rootfs = v[i].rootfs,
			.created = v[i].created,
			.owner = v[i].owner,
			.command = v[i].command,
			.uptime_s = v[i].uptime_s,
			.branch = v[i].branch,
			.ports = v[i].ports,
		};
	free(v);
	*ret = out;
	*ret_n = n;
	return api_result(0, &e, err);
}

API void sandlock_list_free(struct sandlock_info *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].name);
		free(v[i].bundle);
		free(v[i].rootfs);
		free(v[i].created);
		free(v[i].command);
		free(v[i].branch);
		free(v[i].ports);
	}
	free(v);
}

API int sandlock_confine(const struct sandlock_env *env,
			 const struct sandlock_request *q,
			 struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;

	api_env_init(&a, env);
	return api_result(confine_thread(q->request, a.env.log, &e), &e, err);
}

API int sandlock_waiter_main(int argc, char **argv)
{
	return sandbox_waiter_main(argc, argv);
}
