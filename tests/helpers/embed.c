/*
 * An embedder: does what it is told, one word after the other, and says what
 * came of it.
 *
 *	embed [KEY=VALUE]... OPERATION... [-- COMMAND [ARG]...]
 *
 * KEY=VALUE sets a key of the request. A failure is a line "OPERATION: KIND:
 * MESSAGE" and nothing more; the exit status is 0 unless the words are wrong.
 */
#include <errno.h>
#include <sandlock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sandlock_request *request;
static struct sandlock_sandbox *sandbox;
static struct sandlock_launch launch;
static struct sandlock_error err;

static const char *kind_name(enum sandlock_error_kind k)
{
	switch (k) {
	case SANDLOCK_ERR_USAGE:
		return "USAGE";
	case SANDLOCK_ERR_STATE:
		return "STATE";
	case SANDLOCK_ERR_LOCKED:
		return "LOCKED";
	case SANDLOCK_ERR_CONFLICT:
		return "CONFLICT";
	case SANDLOCK_ERR_TIMEOUT:
		return "TIMEOUT";
	case SANDLOCK_ERR_EXISTS:
		return "EXISTS";
	case SANDLOCK_ERR_UNSUPPORTED:
		return "UNSUPPORTED";
	case SANDLOCK_ERR_EXEC_MISSING:
		return "EXEC_MISSING";
	default:
		return "OTHER";
	}
}

static void say(const char *op, int r)
{
	if (r < 0)
		printf("%s: %s: %s\n", op, kind_name(err.kind), err.msg);
	else
		printf("%s: ok\n", op);
}

static const char *outcome_name(enum sandlock_outcome o)
{
	static const char *const names[] = { "none", "pending", "committed",
					     "aborted", "empty" };

	return names[o];
}

static void say_report(const char *op, const struct sandlock_report *r)
{
	static const char *const kinds[] = { "unknown", "exit", "signal",
					     "timeout", "quota" };

	printf("%s: %s %d %s\n", op, kinds[r->result.exit_kind],
	       r->result.exit_value, outcome_name(r->result.outcome));
	if (r->result.outcome_error.kind != SANDLOCK_ERR_NONE)
		printf("%s: %s: %s\n", op,
		       kind_name(r->result.outcome_error.kind),
		       r->result.outcome_error.msg);
	if (r->out_data && r->out_len)
		printf("out: %s%s\n", r->out_data, r->out_cut ? "..." : "");
	if (r->err_data && r->err_len)
		printf("err: %s%s\n", r->err_data, r->err_cut ? "..." : "");
}

static void say_changes(const struct sandlock_report *r)
{
	struct sandlock_rename *renames;
	size_t n;

	for (size_t i = 0; i < r->n_changes; i++) {
		const struct sandlock_changed *c = &r->changes[i];

		printf("change: %c %s%s%s%s\n", c->letter, c->path,
		       c->flags & SANDLOCK_CHANGE_CONTENT_SAME ? " unchanged"
							       : "",
		       c->after.target ? " -> " : "",
		       c->after.target ? c->after.target : "");
	}
	if (sandlock_renames(r->changes, r->n_changes, &renames, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		printf("rename: %s %s\n", r->changes[renames[i].from].path,
		       r->changes[renames[i].to].path);
	free(renames);
}

static const struct sandlock_report *report;

static void wait_op(const char *op, int timeout_ms)
{
	if (sandlock_sandbox_wait(sandbox, timeout_ms, &report, &err) < 0)
		say(op, -1);
	else
		say_report(op, report);
}

static int run_op(const char *op)
{
	if (sandlock_sandbox_run(sandbox, &launch, &report, &err) < 0)
		say(op, -1);
	else
		say_report(op, report);
	return 0;
}

static void text_op(const char *op, int (*fn)(char **, struct sandlock_error *))
{
	char *text = NULL;

	if (fn(&text, &err) < 0)
		say(op, -1);
	else
		printf("%s: %s\n", op, text);
	free(text);
}

static int get_upper(char **ret, struct sandlock_error *e)
{
	return sandlock_sandbox_upper_dir(sandbox, ret, e);
}

static int get_name(char **ret, struct sandlock_error *e)
{
	return sandlock_sandbox_name(sandbox, ret, e);
}

static int get_ports(char **ret, struct sandlock_error *e)
{
	return sandlock_sandbox_ports(sandbox, ret, e);
}

static int number_of(const char *op)
{
	const char *eq = strchr(op, '=');

	return eq ? atoi(eq + 1) : -1;
}

static int is_op(const char *word, const char *op)
{
	size_t n = strlen(op);

	return strncmp(word, op, n) == 0 && (!word[n] || word[n] == '=');
}

/* "upper-of=/DIR", and what was changed there. */
static void upper_of_op(const char *op)
{
	const char *root = strchr(op, '=') + 1;
	char *upper = NULL;

	if (sandlock_sandbox_upper_dir_of(sandbox, root, &upper, &err) < 0)
		say(op, -1);
	else
		printf("%s: %s\n", op, upper);
	free(upper);
	for (size_t i = 0; i < report->n_changes; i++)
		if (strcmp(report->changes[i].root, root) == 0)
			printf("there: %s\n", report->changes[i].path);
}

static int decide_op(const char *op)
{
	struct sandlock_commit refuse = { .conflicts =
						  SANDLOCK_CONFLICT_REFUSE };

	if (is_op(op, "commit"))
		say(op, sandlock_sandbox_commit(sandbox, NULL, &err));
	else if (is_op(op, "commit-refuse"))
		say(op, sandlock_sandbox_commit(sandbox, &refuse, &err));
	else if (is_op(op, "abort"))
		say(op, sandlock_sandbox_abort(sandbox, &err));
	else if (is_op(op, "pending"))
		printf("pending: %d\n", sandlock_sandbox_pending(sandbox));
	else if (strncmp(op, "upper-of=", 9) == 0)
		upper_of_op(op);
	else if (is_op(op, "upper"))
		text_op(op, get_upper);
	else
		return -1;
	return 0;
}

static int life_op(const char *op)
{
	if (is_op(op, "run"))
		return run_op(op);
	if (is_op(op, "create"))
		say(op, sandlock_sandbox_create(sandbox, &launch, &err));
	else if (is_op(op, "start"))
		say(op, sandlock_sandbox_start(sandbox, &err));
	else if (is_op(op, "wait"))
		wait_op(op, number_of(op));
	else if (is_op(op, "kill"))
		say(op, sandlock_sandbox_kill(sandbox, &err));
	else if (is_op(op, "signal"))
		say(op, sandlock_sandbox_signal(sandbox, number_of(op), &err));
	else if (is_op(op, "pause"))
		say(op, sandlock_sandbox_pause(sandbox, &err));
	else if (is_op(op, "resume"))
		say(op, sandlock_sandbox_resume(sandbox, &err));
	else
		return -1;
	return 0;
}

static int other_op(const char *op)
{
	if (is_op(op, "name"))
		text_op(op, get_name);
	else if (is_op(op, "ports"))
		text_op(op, get_ports);
	else if (is_op(op, "pid"))
		printf("pid: %d\n", (int)sandlock_sandbox_pid(sandbox));
	else if (is_op(op, "state"))
		printf("state: %d\n", sandlock_sandbox_get_state(sandbox));
	else if (is_op(op, "changes"))
		say_changes(report);
	else if (is_op(op, "sleep"))
		(void)usleep((useconds_t)number_of(op) * 1000);
	else if (is_op(op, "hang"))
		(void)pause();
	else if (is_op(op, "fork"))
		(void)(fork() == 0 && pause());
	else if (is_op(op, "read-line"))
		(void)(fgetc(stdin) == EOF);
	else if (is_op(op, "quit"))
		_exit(0);
	else
		return -1;
	return 0;
}

static int option(const char *op)
{
	if (is_op(op, "timeout"))
		launch.timeout_ms = (uint64_t)number_of(op);
	else if (is_op(op, "capture"))
		launch.out.kind = launch.err.kind = SANDLOCK_STDIO_CAPTURE;
	else if (is_op(op, "capture-max"))
		launch.capture_max = (size_t)number_of(op);
	else if (is_op(op, "null"))
		launch.in.kind = launch.out.kind = launch.err.kind =
			SANDLOCK_STDIO_NULL;
	else if (is_op(op, "refuse-conflicts"))
		launch.refuse_conflicts = true;
	else
		return -1;
	return 0;
}

/* A key has a dot, or is one of those that are none of a profile. */
static int set_key(const char *word)
{
	const char *eq = strchr(word, '=');
	char key[64];

	if (!eq || eq - word >= (int)sizeof(key))
		return -1;
	(void)snprintf(key, sizeof(key), "%.*s", (int)(eq - word), word);
	if (!strchr(key, '.') && strcmp(key, "name") != 0)
		return -1;
	if (sandlock_request_set(request, key, eq + 1, key, &err) < 0)
		say(key, -1);
	return 0;
}

int main(int argc, char **argv)
{
	int i = 1;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	request = sandlock_request_new();
	for (int k = 1; k < argc; k++)
		if (strcmp(argv[k], "--") == 0) {
			argv[k] = NULL;
			launch.argv = (const char *const *)argv + k + 1;
			break;
		}
	while (argv[i] && (set_key(argv[i]) == 0 || option(argv[i]) == 0))
		i++;
	if (sandlock_sandbox_new(NULL, request, &sandbox, &err) < 0) {
		say("new", -1);
		return 0;
	}
	for (; argv[i]; i++)
		if (life_op(argv[i]) < 0 && decide_op(argv[i]) < 0 &&
		    other_op(argv[i]) < 0 && option(argv[i]) < 0) {
			fprintf(stderr, "embed: what is '%s'?\n", argv[i]);
			return 2;
		}
	sandlock_sandbox_free(sandbox);
	sandlock_request_free(request);
	return 0;
}
