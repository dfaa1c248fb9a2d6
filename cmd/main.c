#include "cmd.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/fd.h"
#include "base/nearest.h"

/* clang-format off */
#define EXIT_PLAIN \
	"0, or 1 with the reason on standard error; 2 for a usage error"
#define EXIT_RUN \
	"that of the program; 128+n if signal n ended it; 125 for a failure\n" \
	"of sandlock's own, 126 if the program cannot be executed, 127 if it\n" \
	"was not found, 124 if it was killed by --timeout"

const struct verb verb_table[] = {
{ VERB_CREATE, "create", "create a sandbox from a bundle", GROUP_LIFECYCLE,
  "[-b BUNDLE] NAME", 1, 1, 0, COMPLETE_NONE,
  "Prepares a sandbox from an OCI bundle, up to but without the start of its\n"
  "program.",
  "sandlock create web -b ./bundle\n"
  "sandlock create -b ./bundle --pid-file web.pid web",
  EXIT_PLAIN, cmd_create },
{ VERB_START, "start", "start the program of a created sandbox", GROUP_LIFECYCLE,
  "NAME", 1, 1, 0, COMPLETE_SANDBOX,
  "Lets the program of a created sandbox run.",
  "sandlock create web -b ./bundle && sandlock start web",
  EXIT_PLAIN, cmd_start },
{ VERB_RUN, "run", "create a sandbox, run its program, tidy up", GROUP_LIFECYCLE,
  "[-b BUNDLE] [NAME]\n-- COMMAND [ARGUMENT...]", 0, -1,
  VERB_STOPS_UNLESS_BUNDLE | VERB_RUNS | VERB_ENGINE_NEEDS_NAME, COMPLETE_NONE,
  "Runs the program of an OCI bundle, or after -- a command of the host, in a\n"
  "sandbox and waits for it. What it writes to its root file system, or to the\n"
  "directory that it works in, goes to a branch; when it has ended, the branch\n"
  "waits for `sandlock commit` or `sandlock abort`.",
  "sandlock run -- make -j4\n"
  "sandlock run --net-allow pypi.org:443 -- pip download six\n"
  "sandlock run -b ./bundle\n"
  "sandlock run -b ./bundle web --on-exit=commit --on-error=abort\n"
  "sandlock run -b ./bundle --branch=none job-7\n"
  "sandlock run -b ./bundle -d web\n"
  "sandlock run --stage build.toml --stage test.toml",
  EXIT_RUN, cmd_run },
{ VERB_EXEC, "exec", "run another program in a running sandbox", GROUP_LIFECYCLE,
  "NAME COMMAND [ARGUMENT...]", 1, -1, VERB_STOPS | VERB_RUNS, COMPLETE_SANDBOX,
  "Runs a program inside a running sandbox. Options end at NAME.",
  "sandlock exec web ls -l /\n"
  "sandlock exec -t web sh\n"
  "sandlock exec -u 1000:1000 -e LANG=C --cwd /tmp web id",
  EXIT_RUN, cmd_exec },
{ VERB_KILL, "kill", "end a sandbox, or send its program a signal", GROUP_LIFECYCLE,
  "NAME [SIGNAL]", 1, 2, 0, COMPLETE_SIGNAL,
  "Without SIGNAL: ends the whole sandbox at once and returns when it is dead.\n"
  "Its branch stays. With SIGNAL: sends it to the first program inside.",
  "sandlock kill web\n"
  "sandlock kill web TERM\n"
  "sandlock kill --all web USR1",
  EXIT_PLAIN, cmd_kill },
{ VERB_DELETE, "delete", "remove an ended sandbox", GROUP_LIFECYCLE,
  "NAME", 1, 1, 0, COMPLETE_SANDBOX,
  "Removes what is left of an ended sandbox. A pending branch is never\n"
  "touched: commit or abort it first.",
  "sandlock delete web\n"
  "sandlock delete --force web",
  EXIT_PLAIN, cmd_delete },
{ VERB_STATE, "state", "print the state of a sandbox as JSON", GROUP_LIFECYCLE,
  "NAME", 1, 1, 0, COMPLETE_SANDBOX,
  "Prints the state as the OCI runtime specification defines it.",
  "sandlock state web | jq -r .status",
  EXIT_PLAIN, cmd_state },
{ VERB_LIST, "list", "list sandboxes as runc does", GROUP_LIFECYCLE,
  "", 0, 0, 0, COMPLETE_NONE,
  "Lists the sandboxes of this user, as `runc list` prints containers.",
  "sandlock list\n"
  "sandlock list -q\n"
  "sandlock list --format json | jq -r '.[].id'",
  EXIT_PLAIN, cmd_list },
{ VERB_PS, "ps", "list sandboxes, or the processes of one", GROUP_LIFECYCLE,
  "[NAME [PS-OPTION...]]", 0, -1, VERB_STOPS | VERB_ENGINE_NEEDS_NAME, COMPLETE_SANDBOX,
  "Without NAME: lists running sandboxes. With NAME: lists the processes\n"
  "inside, as ps(1) prints them with the options given (-ef by default).",
  "sandlock ps\n"
  "sandlock ps -a --format json\n"
  "sandlock ps web -o pid,args",
  EXIT_PLAIN, cmd_ps },
{ VERB_PAUSE, "pause", "suspend every process of a sandbox", GROUP_LIFECYCLE,
  "NAME", 1, 1, 0, COMPLETE_SANDBOX,
  "Suspends every process inside by the cgroup freezer.",
  "sandlock pause web",
  EXIT_PLAIN, cmd_pause },
{ VERB_RESUME, "resume", "let a paused sandbox go on", GROUP_LIFECYCLE,
  "NAME", 1, 1, 0, COMPLETE_SANDBOX,
  "Lets the processes of a paused sandbox go on.",
  "sandlock resume web",
  EXIT_PLAIN, cmd_resume },
{ VERB_UPDATE, "update", "change the limits of a sandbox", GROUP_LIFECYCLE,
  "NAME", 1, 1, 0, COMPLETE_SANDBOX,
  "Changes resource limits of a sandbox. What is not mentioned stays.",
  "sandlock update --memory 512m --pids-limit 100 web\n"
  "echo '{\"pids\":{\"limit\":50}}' | sandlock update -r - web",
  EXIT_PLAIN, cmd_update },
{ VERB_EVENTS, "events", "print what a sandbox uses, as JSON lines", GROUP_LIFECYCLE,
  "NAME", 1, 1, 0, COMPLETE_SANDBOX,
  "Prints statistics of the sandbox's cgroup every few seconds until it ends,\n"
  "one JSON object a line.",
  "sandlock events --stats web | jq .data.memory.usage\n"
  "sandlock events --interval 1s web",
  EXIT_PLAIN, cmd_events },
{ VERB_SPEC, "spec", "write a config.json to start from", GROUP_LIFECYCLE,
  "", 0, 0, 0, COMPLETE_NONE,
  "Writes config.json for a shell in ./rootfs. An existing file is left alone.",
  "mkdir rootfs && sandlock spec\n"
  "sandlock spec --rootless -b ./bundle",
  EXIT_PLAIN, cmd_spec },
{ VERB_FEATURES, "features", "print what this program supports, as JSON", GROUP_LIFECYCLE,
  "", 0, 0, 0, COMPLETE_NONE,
  "Prints the features object of the OCI runtime specification.",
  "sandlock features | jq .linux.seccomp.archs",
  EXIT_PLAIN, cmd_features },

{ VERB_DIFF, "diff", "show what a sandbox changed", GROUP_BRANCH,
  "[NAME [PATH...]]", 0, -1, 0, COMPLETE_BRANCH,
  "Shows what is in a branch: A added, M modified, m only mode, owner or\n"
  "attributes, D deleted, T another type; C before the letter of what the host\n"
  "changed meanwhile. Deletions and changes of type come first. Without NAME:\n"
  "the only branch that is pending.",
  "sandlock diff\n"
  "sandlock diff web\n"
  "sandlock diff --patch web etc\n"
  "sandlock diff --name-status -z web | xargs -0 -n2 echo\n"
  "sandlock diff --format json --digest web | jq .changes",
  "0; 1 with --exit-code if there are changes, or with the reason on standard\n"
  "error; 2 for a usage error",
  cmd_diff },
{ VERB_COMMIT, "commit", "publish what a sandbox changed", GROUP_BRANCH,
  "[NAME [PATH...]]", 0, -1, 0, COMPLETE_BRANCH,
  "Publishes the changes of a branch, or those at and below each PATH. If the\n"
  "host changed one of them meanwhile, nothing is published. Without NAME: the\n"
  "only branch that is pending.",
  "sandlock commit web\n"
  "sandlock commit web etc/nginx\n"
  "sandlock commit --skip-conflicts web",
  "0, or 1 with the reason on standard error; 2 for a usage error; 3 if there\n"
  "are conflicts; 75 if the lock could not be had within 5 seconds",
  cmd_commit },
{ VERB_ABORT, "abort", "discard what a sandbox changed", GROUP_BRANCH,
  "NAME [PATH...]", 1, -1, 0, COMPLETE_BRANCH,
  "Discards the changes of a branch, or those at and below each PATH.",
  "sandlock abort web\n"
  "sandlock abort web var/log",
  "0, or 1 with the reason on standard error; 2 for a usage error; 75 if the\n"
  "lock could not be had within 5 seconds",
  cmd_abort },
{ VERB_BRANCHES, "branches", "list stored branches", GROUP_BRANCH,
  "[PART...]", 0, -1, 0, COMPLETE_BRANCH,
  "Lists branches, or those whose name contains one of the PARTs.",
  "sandlock branches\n"
  "sandlock branches -q web\n"
  "sandlock branches --format json | jq -r '.branches[].name'",
  EXIT_PLAIN, cmd_branches },
{ VERB_RECOVER, "recover", "finish what a crash interrupted", GROUP_BRANCH,
  "[NAME]", 0, 1, 0, COMPLETE_BRANCH,
  "Finishes an interrupted commit, or settles the branch of a sandbox that was\n"
  "interrupted. Without NAME or --all it lists what needs that.",
  "sandlock recover --all\n"
  "sandlock recover --rollback web",
  "0, or 1 with the reason on standard error; 2 for a usage error; 75 if the\n"
  "lock could not be had within 5 seconds",
  cmd_recover },

{ VERB_INSPECT, "inspect", "print what a running sandbox was asked for", GROUP_LIFECYCLE,
  "NAME", 1, 1, 0, COMPLETE_SANDBOX,
  "Prints the configuration of a running host command as JSON, or as a profile\n"
  "that asks for the same. Of a bundle it prints the state.",
  "sandlock inspect web | jq .filesystem\n"
  "sandlock inspect --toml web >web.toml && sandlock run --profile-file web.toml",
  EXIT_PLAIN, cmd_inspect,
  "config" /* as the control socket has it */ },
{ VERB_PORTS, "ports", "list the remapped ports of a running sandbox", GROUP_LIFECYCLE,
  "NAME", 1, 1, 0, COMPLETE_SANDBOX,
  "Prints the ports that a command with --port-remap has bound now, and the port\n"
  "of the host behind each.",
  "sandlock ports web\n"
  "curl http://127.0.0.1:$(sandlock ports --json web | jq '.[\"8080\"]')/",
  EXIT_PLAIN, cmd_ports },
{ VERB_LOGS, "logs", "list what was refused to a sandbox", GROUP_LIFECYCLE,
  "[NAME]", 0, 1, 0, COMPLETE_SANDBOX,
  "Prints what was refused, oldest first: of a running sandbox, or of one that\n"
  "has ended and whose branch is pending. Without NAME: the only branch that is\n"
  "pending.",
  "sandlock logs\n"
  "sandlock logs web\n"
  "sandlock logs --follow web\n"
  "sandlock logs --json web | jq -r '.denials[].remedy'",
  EXIT_PLAIN, cmd_logs },
{ VERB_WHY, "why", "explain what a sandbox is not allowed", GROUP_LIFECYCLE,
  "[NAME [PATH|CALL]]", 0, 2, 0, COMPLETE_SANDBOX,
  "Says why something was refused and what would allow it. With PATH or CALL, a\n"
  "system call: only what concerns it, and, of a running sandbox, whether it\n"
  "would be allowed now. Without NAME: the only branch that is pending.",
  "sandlock why\n"
  "sandlock why web ~/.ssh/id_rsa\n"
  "sandlock why web ptrace",
  "0 if it is allowed, or nothing was refused; 1 if it is not, or something\n"
  "was; 2 if that cannot be told, or for a usage error",
  cmd_why },

{ VERB_APPROVALS, "approvals", "list what sandboxes wait for an answer to", GROUP_APPROVALS,
  "[NAME]", 0, 1, 0, COMPLETE_SANDBOX,
  "Prints the open questions of a sandbox, or of all of them: what a rule says\n"
  "somebody has to be asked about. Each has an ID that names exactly what is shown.",
  "sandlock approvals\n"
  "sandlock approvals --watch web\n"
  "sandlock approvals --json web | jq -r '.approvals[].approval.what'",
  EXIT_PLAIN, cmd_approvals },
{ VERB_APPROVE, "approve", "allow what a sandbox asks for", GROUP_APPROVALS,
  "NAME ID", 2, 2, 0, COMPLETE_SANDBOX,
  "Allows, once, what `sandlock approvals` shows under ID. What may have changed\n"
  "since then is checked again before the call goes on.",
  "sandlock approve web 3-0a1b2c3d",
  EXIT_PLAIN, cmd_approve },
{ VERB_DENY, "deny", "deny what a sandbox asks for", GROUP_APPROVALS,
  "NAME ID", 2, 2, 0, COMPLETE_SANDBOX,
  "Denies, once, what `sandlock approvals` shows under ID: the call fails with\n"
  "EPERM. The reason is put on record.",
  "sandlock deny web 3-0a1b2c3d\n"
  "sandlock deny --reason 'use the mirror' web 3-0a1b2c3d",
  EXIT_PLAIN, cmd_deny },

{ VERB_CHECK, "check", "say what this machine can do, and what is missing", GROUP_OTHER,
  "", 0, 0, 0, COMPLETE_NONE,
  "Tries what a sandbox needs, says what follows from what is not there, and\n"
  "how to get it. Nothing is changed.",
  "sandlock check\n"
  "sandlock check --format json | jq -r '.checks[] | select(.state != \"ok\").fix'\n"
  "sandlock check --syscalls",
  "0 if everything that a default run needs is there, else 1; 2 for a usage\n"
  "error",
  cmd_check },
{ VERB_PROFILE, "profile", "list, show and check profiles", GROUP_OTHER,
  "list | show NAME | check FILE...", 1, -1, 0, COMPLETE_PROFILE,
  "A profile is a file that says what a command may do, for `run --profile`.\n"
  "list: the profiles there are. show: the text of one. check: whether files\n"
  "can be used as profiles.",
  "sandlock profile list\n"
  "sandlock profile show build\n"
  "sandlock profile check ./build.toml\n"
  "sandlock run -p build -- make",
  EXIT_PLAIN, cmd_profile },

{ VERB_COMPLETION, "completion", "print the completion script of a shell", GROUP_OTHER,
  "bash|zsh|fish", 0, 1, 0, COMPLETE_SHELL,
  "Prints the script that completes verbs, options and names.",
  "source <(sandlock completion bash)\n"
  "sandlock completion zsh >~/.zfunc/_sandlock\n"
  "sandlock completion fish >~/.config/fish/completions/sandlock.fish",
  EXIT_PLAIN, cmd_completion },
{ VERB_VERSION, "version", "print the version and what is built in", GROUP_OTHER,
  "", 0, 0, 0, COMPLETE_NONE,
  "Prints the same as --version.",
  "sandlock version\n"
  "sandlock version --format json",
  EXIT_PLAIN, cmd_version },
{ VERB_HELP, "help", "explain a verb", GROUP_OTHER,
  "[VERB]", 0, 1, 0, COMPLETE_VERB,
  "Prints the overview, or the help of a verb.",
  "sandlock help commit",
  EXIT_PLAIN, cmd_help },
};
/* clang-format on */

const size_t verb_table_len = ARRAY_LEN(verb_table);

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "";
}

static const char *nth_verb(const void *v, size_t i)
{
	return verb_table[i].name;
}

static int unknown_verb(struct ctx *ctx, const char *word)
{
	const char *near = nearest_word(word, nth_verb, NULL, verb_table_len);
	struct sandlock_error err = { 0 };

	(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0, "unknown command '%s'",
			word);
	if (near)
		(void)cmd_hint(&err, "did you mean '%s'?", near);
	else
		(void)cmd_hint(&err, "%s --help lists them", ctx->program);
	(void)cmd_fail(ctx, &err);
	return ctx->engine ? STATUS_ENGINE_UNKNOWN_VERB : STATUS_USAGE;
}

static enum sandlock_log_level parse_level(const char *name)
{
	if (!strcmp(name, "error"))
		return SANDLOCK_LOG_ERROR;
	if (!strcmp(name, "info"))
		return SANDLOCK_LOG_INFO;
	if (!strcmp(name, "debug"))
		return SANDLOCK_LOG_DEBUG;
	return SANDLOCK_LOG_WARNING;
}

static int set_log(struct ctx *ctx, const struct args *g,
		   struct sandlock_error *err)
{
	const char *level = args_str(g, "log-level");
	const char *format = args_str(g, "log-format");
	const char *path = args_str(g, "log");
	auto_close int fd = -1;

	ctx->log_level = SANDLOCK_LOG_WARNING;
	if (level)
		ctx->log_level = parse_level(level);
	if (args_has(g, "debug"))
		ctx->log_level = SANDLOCK_LOG_DEBUG;
	ctx->log_json = format && !strcmp(format, "json");
	if (!path)
		return 0;
	if (!strncmp(path, "file:", 5))
		path += 5;
	if (!strncmp(path, "journald:", 9) || !strncmp(path, "syslog:", 7)) {
		(void)cmd_error(err, SANDLOCK_ERR_UNSUPPORTED, 0,
				"cannot log to '%s'", path);
		return cmd_hint(err, "give --log a file");
	}
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, errno,
				 "cannot write the log '%s'", path);
	ctx->log_path = path;
	return 0;
}

static int apply_globals(struct ctx *ctx, const struct args *g,
			 struct sandlock_error *err)
{
	const char *root = args_str(g, "root");
	const char *manager = args_str(g, "cgroup-manager");
	int r = set_log(ctx, g, err);

	if (r < 0)
		return r;
	if (root && (!*root || !strcmp(root, "/"))) {
		(void)cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				"'%s' cannot be the --root directory", root);
		return cmd_hint(err, "name a directory of its own");
	}
	ctx->env.root = root;
	ctx->systemd_cgroup = args_has(g, "systemd-cgroup");
	if (manager) {
		ctx->systemd_cgroup = !strcmp(manager, "systemd");
		ctx->disable_cgroups = !strcmp(manager, "disabled");
	}
	return 0;
}

static int run_verb(struct ctx *ctx, char *const *argv)
{
	auto_(args) struct args args = { 0 };
	struct sandlock_error err = { 0 };

	ctx->verb = verb_find(argv[0]);
	if (!ctx->verb)
		return unknown_verb(ctx, argv[0]);
	if (args_parse(ctx->verb, ctx->engine, argv, &args, &err) < 0)
		return cmd_fail(ctx, &err);
	if (args_has(&args, "help"))
		return help_verb(ctx, ctx->verb);
	return ctx->verb->run(ctx, &args);
}

int main(int argc, char **argv)
{
	const char *name = base_name(argc > 0 ? argv[0] : NULL);
	auto_(args) struct args globals = { 0 };
	struct ctx ctx = { .program = "sandlock" };
	struct sandlock_error err = { 0 };
	size_t used = 0;
	int r;

	/* Nobody's privileges but the caller's own, set-id bit or not. */
	if (getauxval(AT_SECURE)) {
		(void)fputs("sandlock: refusing to run set-user-id\n", stderr);
		return STATUS_FAILURE;
	}
	/* Ignored, as it may be inherited, no child leaves a status. */
	(void)signal(SIGCHLD, SIG_DFL);
	/* EFBIG says which file it was. A payload gets the default back. */
	(void)signal(SIGXFSZ, SIG_IGN);
	if (!strcmp(name, "sandlock-waiter"))
		return sandlock_waiter_main(argc, argv);
	if (!strcmp(name, "sandlock-supervisor"))
		return sandlock_supervisor_main(argc, argv);
	if (!strcmp(name, "sandlock-oci")) {
		ctx.program = "sandlock-oci";
		ctx.engine = true;
	}
	if (fd_ensure_std() < 0)
		return STATUS_FAILURE;
	ctx.env.log = cmd_log;
	ctx.env.log_data = &ctx;
	r = args_parse_globals(argv + (argc > 0), &globals, &used, &err);
	if (!r)
		r = apply_globals(&ctx, &globals, &err);
	if (r < 0)
		return cmd_fail(&ctx, &err);
	if (args_has(&globals, "version"))
		return version_print(&ctx, false);
	argv += used + (argc > 0);
	if (args_has(&globals, "help") || !argv[0])
		return help_overview(&ctx);
	return run_verb(&ctx, argv);
}
