#include "cmd.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { COMMAND_WIDTH = 60 };

static int print_sandboxes_json(struct ctx *ctx, const struct sandlock_info *v,
				size_t n)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);

	if (!o)
		return cmd_fail_memory(ctx);
	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.ps/1");
	json_out_key(o, "sandboxes");
	json_out_array(o);
	for (size_t i = 0; i < n; i++) {
		json_out_object(o);
		json_out_str_member(o, "name", v[i].name);
		json_out_int_member(o, "pid", v[i].pid);
		json_out_str_member(o, "status", v[i].status);
		json_out_key(o, "uptime_s");
		if (v[i].uptime_s < 0)
			json_out_null(o);
		else
			json_out_int(o, v[i].uptime_s);
		json_out_key(o, "ports");
		print_json_str_or_null(o, v[i].ports);
		json_out_key(o, "branch");
		print_json_str_or_null(o, v[i].branch);
		json_out_key(o, "command");
		print_json_str_or_null(o, v[i].command);
		json_out_key(o, "bundle");
		print_json_str_or_null(o, v[i].bundle);
		json_out_key(o, "created");
		print_json_str_or_null(o, v[i].created);
		json_out_object_end(o);
	}
	json_out_array_end(o);
	json_out_object_end(o);
	return print_json(ctx, o);
}

static int print_sandboxes_table(struct ctx *ctx, const struct sandlock_info *v,
				 size_t n)
{
	static const char *const header[] = { "NAME",	"PID",	 "UPTIME",
					      "STATUS", "PORTS", "BRANCH",
					      "CMD" };
	auto_(table) struct table t;
	char text[24];

	table_init(&t, ARRAY_LEN(header), 0, 2);
	for (size_t i = 0; i < ARRAY_LEN(header); i++)
		table_add(&t, header[i], 0);
	for (size_t i = 0; i < n; i++) {
		table_add(&t, v[i].name, 0);
		(void)snprintf(text, sizeof(text), "%d", (int)v[i].pid);
		table_add(&t, v[i].pid > 0 ? text : "-", 0);
		table_add(&t, print_uptime(v[i].uptime_s, text), 0);
		table_add(&t, v[i].status, 0);
		table_add(&t, v[i].ports, 0);
		table_add(&t, v[i].branch, 0);
		table_add(&t, v[i].command, COMMAND_WIDTH);
	}
	if (table_print(&t, stdout) < 0)
		return cmd_fail_memory(ctx);
	return cmd_flush(ctx);
}

static int list_sandboxes(struct ctx *ctx, const struct args *args)
{
	struct sandlock_error err = { 0 };
	struct sandlock_info *v = NULL;
	size_t n = 0;
	int r;

	if (sandlock_list(&ctx->env, args_has(args, "all"), &v, &n, &err) < 0)
		return cmd_fail(ctx, &err);
	r = args_json(args) ? print_sandboxes_json(ctx, v, n)
			    : print_sandboxes_table(ctx, v, n);
	sandlock_list_free(v, n);
	return r;
}

static int print_pids_json(struct ctx *ctx, const pid_t *pids, size_t n)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);

	if (!o)
		return cmd_fail_memory(ctx);
	json_out_array(o);
	for (size_t i = 0; i < n; i++)
		json_out_int(o, pids[i]);
	json_out_array_end(o);
	return print_json(ctx, o);
}

/* Starts ps(1) with its output in a pipe. */
static int spawn_ps(const char *const *options, pid_t *ret_pid, FILE **ret,
		    struct sandlock_error *err)
{
	static const char *const dflt[] = { "-ef", NULL };
	auto_free const char **argv = NULL;
	posix_spawn_file_actions_t actions;
	int fds[2], r;
	size_t n = 0;

	if (!options[0])
		options = dflt;
	while (options[n])
		n++;
	argv = calloc(n + 2, sizeof(*argv));
	if (!argv || pipe2(fds, O_CLOEXEC) < 0)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, errno,
				 "cannot run 'ps'");
	argv[0] = "ps";
	memcpy(argv + 1, options, n * sizeof(*argv));
	r = posix_spawn_file_actions_init(&actions);
	if (!r) {
		r = posix_spawn_file_actions_adddup2(&actions, fds[1],
						     STDOUT_FILENO);
		if (!r)
			r = posix_spawnp(ret_pid, "ps", &actions, NULL,
					 (char **)argv, environ);
		(void)posix_spawn_file_actions_destroy(&actions);
	}
	(void)close(fds[1]);
	if (!r) {
		*ret = fdopen(fds[0], "r");
		if (*ret)
			return 0;
		r = errno;
		(void)waitpid(*ret_pid, NULL, 0);
	}
	(void)close(fds[0]);
	return cmd_error(err, SANDLOCK_ERR_SYSTEM, r, "cannot run 'ps'");
}

/* Which of the words in the header is PID; -1 if none is. */
static int pid_column(const char *header)
{
	int column = 0;

	for (const char *s = header + strspn(header, " \n"); *s; column++) {
		size_t n = strcspn(s, " \n");

		if (n == 3 && !strncmp(s, "PID", 3))
			return column;
		s += n;
		s += strspn(s, " \n");
	}
	return -1;
}

static pid_t pid_of_line(const char *line, int column)
{
	const char *s = line + strspn(line, " ");

	while (column-- > 0) {
		s += strcspn(s, " \n");
		s += strspn(s, " ");
	}
	return strtol(s, NULL, 10);
}

static bool is_one_of(pid_t pid, const pid_t *pids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static int filter_ps(FILE *f, const pid_t *pids, size_t n,
		     struct sandlock_error *err)
{
	auto_free char *line = NULL;
	size_t cap = 0;
	int column;

	if (getline(&line, &cap, f) < 0)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, 0,
				 "'ps' printed nothing");
	column = pid_column(line);
	if (column < 0) {
		(void)cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				"the output of 'ps' has no column PID");
		return cmd_hint(err, "choose columns with -o pid,...");
	}
	(void)fputs(line, stdout);
	while (getline(&line, &cap, f) >= 0)
		if (is_one_of(pid_of_line(line, column), pids, n))
			(void)fputs(line, stdout);
	return 0;
}

static int list_processes(struct ctx *ctx, const struct args *args)
{
	struct sandlock_error err = { 0 };
	auto_free pid_t *pids = NULL;
	FILE *f = NULL;
	pid_t ps = -1;
	size_t n = 0;
	int r;

	if (sandlock_pids(&ctx->env, args->operands[0], &pids, &n, &err) < 0)
		return cmd_fail(ctx, &err);
	if (args_json(args))
		return print_pids_json(ctx, pids, n);
	if (spawn_ps(args->operands + 1, &ps, &f, &err) < 0)
		return cmd_fail(ctx, &err);
	r = filter_ps(f, pids, n, &err);
	(void)fclose(f);
	(void)waitpid(ps, NULL, 0);
	return r < 0 ? cmd_fail(ctx, &err) : cmd_flush(ctx);
}

int cmd_ps(struct ctx *ctx, struct args *args)
{
	return args->n_operands ? list_processes(ctx, args)
				: list_sandboxes(ctx, args);
}
