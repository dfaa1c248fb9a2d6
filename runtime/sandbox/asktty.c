#include "sandbox/asktty.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/path.h"
#include "kernel/pidfd.h"
#include "kernel/tty.h"
#include "sandbox/asked.h"
#include "sandbox/create.h"
#include "supervise/approvals.h"

CLEANUP_PTR(struct json_out, json_out_free);

enum { KEY_INTERRUPT = 3, KEY_ESCAPE = 27, WHAT_MAX = 400 };

struct asktty {
	const struct create *create;
	/* The question that is shown. */
	uint64_t id;
	char digest[EVENT_DIGEST_LEN + 1];
	bool is_open;
	bool is_cut; /* not all of it is shown */
	/* What approvals_each looks for and finds. */
	bool details;
	struct buf *text;
};

static void add_escaped(struct buf *b, const char *s)
{
	text_escape(b, s ? s : "-", s ? strlen(s) : 1);
}

static void write_question(struct asktty *t, const struct approval_info *i)
{
	struct buf *b = t->text;
	bool cut = false;

	buf_printf(b, "\nsandlock: %s asks: ", t->create->plan->name);
	add_escaped(b, i->event->program);
	buf_printf(b, " (pid %d) wants to\n          ", (int)i->event->pid);
	event_describe(i->event, WHAT_MAX, b, &cut);
	if (cut)
		buf_add_str(b, " (there is more: ?)");
	if (i->count > 1)
		buf_printf(b, "  x%u", i->count);
	buf_add_str(b, "\n  because of the rule '");
	add_escaped(b, i->rule);
	buf_printf(b, "'\n  y once   %sn no   ? details   k kill\n",
		   cut ? "" : "s this sandbox   ");
	t->is_cut = cut;
}

static void write_details(struct asktty *t, const struct approval_info *i)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);

	approval_to_json(i, o);
	(void)json_out_end(o, t->text);
}

static bool find_shown(void *data, const struct approval_info *i)
{
	struct asktty *t = data;

	if (i->id != t->id)
		return true;
	t->is_open = true;
	if (t->details)
		write_details(t, i);
	return false;
}

static bool find_next(void *data, const struct approval_info *i)
{
	struct asktty *t = data;

	t->is_open = true;
	t->id = i->id;
	(void)snprintf(t->digest, sizeof(t->digest), "%s", i->digest);
	write_question(t, i);
	return false;
}

static bool show(void *data, struct buf *text)
{
	struct approvals *book;
	struct asktty *t = data;
	bool was = t->is_open;
	uint64_t ticks;

	book = t->create->approvals;
	(void)!read(approvals_fd(book), &ticks, sizeof(ticks));
	t->text = text;
	t->is_open = false;
	if (was)
		approvals_each(book, 0, false, find_shown, t);
	if (t->is_open)
		return true;
	if (was)
		buf_add_str(text, "sandlock: that question is closed\n");
	approvals_each(book, 0, false, find_next, t);
	return t->is_open;
}

enum answer { ANSWER_NO, ANSWER_ONCE, ANSWER_ALIKE };

static void answer(struct asktty *t, enum answer what, struct buf *text)
{
	static const char *const said[] = {
		[ANSWER_NO] = "sandlock: denied\n",
		[ANSWER_ONCE] = "sandlock: allowed, once\n",
		[ANSWER_ALIKE] = "sandlock: allowed, for this sandbox\n",
	};
	struct approvals *book = t->create->approvals;
	struct error err = ERROR_INIT;
	char tty[64] = "", by[160];
	int r;

	if (ttyname_r(STDIN_FILENO, tty, sizeof(tty)) != 0)
		*tty = '\0';
	(void)snprintf(by, sizeof(by), "uid %u on %s", (unsigned int)getuid(),
		       tty);
	r = what == ANSWER_ALIKE
		    ? approvals_allow_alike(book, t->id, t->digest, by, &err)
		    : approvals_resolve(book, t->id, t->digest,
					what == ANSWER_NO ? EPERM : 0, by, NULL,
					&err);
	if (r < 0)
		buf_printf(text, "sandlock: %s\n", err.msg);
	else
		buf_add_str(text, said[what]);
	t->is_open = false;
}

static bool on_key(void *data, char key, struct buf *text)
{
	struct asktty *t = data;

	switch (key) {
	case 'y':
		answer(t, ANSWER_ONCE, text);
		break;
	case 's':
		if (!t->is_cut)
			answer(t, ANSWER_ALIKE, text);
		break;
	case 'n':
	case KEY_ESCAPE:
	case KEY_INTERRUPT:
		answer(t, ANSWER_NO, text);
		break;
	case 'k':
		answer(t, ANSWER_NO, text);
		(void)pidfd_signal(t->create->pidfd, SIGKILL);
		break;
	case '?':
		t->text = text;
		t->details = true;
		approvals_each(t->create->approvals, 0, false, find_shown, t);
		t->details = false;
		break;
	default:
		break;
	}
	return t->is_open;
}

int asktty_relay(struct create *c, struct tty_session s, struct error *err)
{
	struct asktty t = { .create = c };
	struct tty_prompt p = { .show = show, .key = on_key, .data = &t };

	if (c && c->approvals && strcmp(ask_by(c), "tty") == 0) {
		p.fd = approvals_fd(c->approvals);
		s.prompt = &p;
	}
	return tty_relay(&s, err);
}
