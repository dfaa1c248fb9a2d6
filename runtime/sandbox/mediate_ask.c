/* Programs and files that somebody is asked about: the section [ask]. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "policy/ask.h"
#include "policy/syscalls.h"
#include "sandbox/asked.h"
#include "sandbox/askhook.h"
#include "sandbox/asklink.h"
#include "sandbox/audit.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/live_limits.h"
#include "sandbox/mediate.h"
#include "supervise/denied_paths.h"
#include "supervise/exec.h"
#include "supervise/open.h"

/* What the rows point to. */
struct ask_state {
	struct asker asker;
	struct freezer *freezer;
	struct exec_asker exec;
	struct open_asker open;
	struct opener opener;
	bool has_opener;
	struct audit *audit;
	struct approvals *book; /* of the create */
	struct askhook *hook;	/* a program that is asked */
	const struct create *create;
	int events_fd;
};

static unsigned int traps_of(const struct request *q, bool has_network)
{
	if (request_asks_callback(q))
		return TRAP_EXEC | TRAP_OPEN | TRAP_OPENER |
		       (has_network ? TRAP_NETWORK : 0);
	return (q->ask_exec.n ? TRAP_EXEC : 0) |
	       (q->ask_open.n ? TRAP_OPEN | TRAP_OPENER : 0) |
	       (q->ask_connect.n ? TRAP_NETWORK : 0);
}

static unsigned int traps(const struct host_context *h)
{
	return traps_of(h->request, h->shared_network);
}

static unsigned int traps_of_bundle(const struct plan *p,
				    const struct request *q)
{
	return q ? traps_of(q, mediate_has_network(p)) : 0;
}

static void stop_link(void *p)
{
	asklink_stop(p);
}

static void free_state(void *p)
{
	struct ask_state *s = p;

	askhook_stop(s->hook);
	freezer_free(s->freezer);
	if (s->has_opener)
		opener_done(&s->opener);
	if (s->book)
		approvals_untell(s->book, s->audit);
	if (s->book)
		approvals_tell_later(s->book, NULL, NULL);
	audit_close(s->audit);
	free(s);
}

const char *ask_by(const struct create *c)
{
	const struct command_options *o = c->command;
	const char *by = o->request->ask_by;
	bool terminal = c->plan->host ? o->terminal : c->console_master >= 0;

	/* A question that nobody sees must not wait. */
	if (by && strcmp(by, "tty") == 0 && !terminal)
		return "never";
	if (by)
		return by;
	if (terminal)
		return "tty";
	/* Who runs it by the library is there to answer, and who has it run
	 * beside himself comes back for that. */
	return o->hooks || c->bundle->detach ? "socket" : "never";
}

static int add_rows(struct mediation *m, const struct handler *rows, size_t n,
		    struct error *err)
{

	return mediation_add_rows(m, rows, n, err);
}

static int add_exec(struct mediation *m, struct ask_state *s, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct handler rows[EXEC_ROWS];
	struct stat st;

	if (c->plan->notify)
		st = (struct stat){ .st_ino = 0 };
	else if (fstat(c->launcher_fd, &st) < 0)
		return error_set(err, ERR_SYSTEM, errno, "launcher");
	s->exec = (struct exec_asker){
		.asker = &s->asker,
		.rules = &c->command->request->ask_exec,
		.freezer = s->freezer,
		.launcher_dev = st.st_dev,
		.launcher_ino = st.st_ino,
	};
	return add_rows(m, rows, exec_rows(&s->exec, rows), err);
}

static int add_open(struct mediation *m, struct ask_state *s, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct handler rows[OPEN_ROWS + OPENER_ROWS];
	size_t n;

	/* The rows of exec, if there are any, come before these. */
	if (opener_init(&s->opener,
			c->plan->spec->ns[SPEC_NS_MOUNT].want !=
				SPEC_NS_INHERIT,
			s->exec.asker) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	s->has_opener = true;
	s->exec.callers = &s->opener.callers;
	s->open = (struct open_asker){
		.asker = &s->asker,
		.rules = &c->command->request->ask_open,
		.opener = &s->opener,
		.freezer = s->freezer,
	};
	n = open_rows(&s->open, rows);
	n += opener_rows(&s->opener, rows + n);
	return add_rows(m, rows, n, err);
}

/* The book outlives the rows: it is the socket's, too. */
static int make_book(struct create *c, struct ask_state *s, struct error *err)
{
	const struct request *q = c->command->request;
	int r;

	s->asker = (struct asker){
		.timeout_ms =
			q->ask_timeout_ms ? q->ask_timeout_ms : ASK_TIMEOUT_MS,
		.network_timeout_ms = q->ask_timeout_ms
					      ? q->ask_timeout_ms
					      : ASK_NETWORK_TIMEOUT_MS,
		.denials = c->denials,
	};
	if (strcmp(ask_by(c), "never") == 0)
		return 0;
	if (*ask_by(c) == '/' && access(ask_by(c), X_OK) < 0)
		return error_set(err, ERR_USAGE, errno, "--ask '%s'",
				 ask_by(c));
	c->approvals = approvals_new(q->ask_limit);
	if (!c->approvals)
		return error_set(err, ERR_SYSTEM, ENOMEM, "approvals");
	s->asker.book = s->book = c->approvals;
	s->asker.asks_all = request_asks_callback(q);
	if (request_asks_callback(q))
		s->asker.denied_paths = c->denied_paths = denied_paths_new();
	if (request_asks_callback(q))
		c->limits = live_limits_new(c);
	if (request_asks_callback(q) && (!c->denied_paths || !c->limits))
		return error_set(err, ERR_SYSTEM, ENOMEM, "approvals");
	if (request_asks_callback(q))
		approvals_set_separate(s->book);
	r = audit_open(c, &s->audit, err);
	if (r < 0)
		return r;
	if (!request_asks_callback(q))
		return approvals_tell(s->book, audit_told, s->audit);
	approvals_tell_later(s->book, audit_told, s->audit);
	return 0;
}

static int check_rules(const struct request *q, int events_fd,
		       struct error *err)
{
	int r = ask_check_paths(&q->ask_exec, "ask.exec", err);

	if (request_asks_callback(q) && events_fd < 0)
		return error_say(err, ERR_USAGE, EINVAL,
				 "ask: there is no callback to be asked");
	return r < 0 ? r : ask_check_paths(&q->ask_open, "ask.open", err);
}

static int begin(struct mediation *m, struct error *err)
{
	/* It is ours to give the create its book, before anybody runs. */
	struct create *c = (struct create *)(uintptr_t)mediation_create(m);
	const struct request *q = c->command->request;
	struct ask_state *s;
	int events_fd = c->command->hooks ? c->command->events_fd : -1;
	int r = check_rules(q, events_fd, err);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	r = mediation_own(m, s, free_state, err);
	if (r < 0)
		return r;
	s->events_fd = events_fd;
	s->create = c;
	mediation_set_state(m, s);
	s->freezer = freezer_new(mediation_list, c);
	if (!s->freezer)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	r = make_book(c, s, err);
	/* Destinations are asked about where they are judged. */
	mediation_set_asker(m, &s->asker);
	if (r == 0 && (q->ask_exec.n || request_asks_callback(q)))
		r = add_exec(m, s, err);
	if (r == 0 && (q->ask_open.n || request_asks_callback(q)))
		r = add_open(m, s, err);
	return r;
}

/* From here on there are threads. */
static int started(struct mediation *m, void *state, pid_t pid,
		   struct error *err)
{
	struct ask_state *s = state;
	struct asklink *link;

	if (s->create->plan->notify)
		s->exec.first_pid = pid;
	s->asker.finder = mediation_finder(m);
	if (!s->book)
		return 0;
	if (*ask_by(s->create) == '/') {
		s->hook = askhook_start(s->book, ask_by(s->create),
					s->create->plan->name);
		return s->hook ? 0
			       : error_set(err, ERR_SYSTEM, ENOMEM,
					   "cannot ask '%s'",
					   ask_by(s->create));
	}
	if (!s->asker.asks_all)
		return 0;
	link = asklink_start(s->book, mediation_net(m), s->audit, s->create,
			     s->events_fd);
	if (!link)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot reach the callback");
	s->asker.join = asklink_join;
	s->asker.join_data = link;
	/* Behind what it uses, so that it ends before that is freed. */
	return mediation_own(m, link, stop_link, err);
}

const struct mediate_feature mediate_ask = {
	.flag = "a rule that asks",
	.is_asked_for = true,
	.traps = traps,
	.bundle_traps = traps_of_bundle,
	.begin = begin,
	.started = started,
};
