#include "denials.h"

#include <string.h>

#include "base/path.h"
#include "base/utc.h"

/* clang-format off */
static const struct {
	const char *code; /* or what it begins with */
	const char *phrase;
} phrases[] = {
	{ "fs.read",     "may not read" },
	{ "fs.write",    "may not write" },
	{ "fs.execute",  "may not execute" },
	{ "net.connect", "may not connect to" },
	{ "net.send",    "may not send to" },
	{ "net.bind",    "may not bind" },
	{ "exec.",       "may not execute" },
};
/* clang-format on */

static void add_escaped(struct buf *b, const char *s)
{
	text_escape(b, s, strlen(s));
}

void denial_headline(struct buf *b, const struct sandlock_denial *d)
{
	const char *phrase = NULL;

	for (size_t i = 0; i < ARRAY_LEN(phrases); i++)
		if (strncmp(d->code, phrases[i].code,
			    strlen(phrases[i].code)) == 0)
			phrase = phrases[i].phrase;
	add_escaped(b, *d->program ? d->program : "a process");
	if (strcmp(d->code, "limits.memory") == 0) {
		buf_add_str(b, " was killed");
	} else if (strcmp(d->code, "limits.disk") == 0) {
		buf_add_str(b, " wrote more than the branch may hold");
	} else if (phrase && d->object) {
		buf_printf(b, " %s '", phrase);
		add_escaped(b, d->object);
		buf_add_char(b, '\'');
	} else {
		buf_printf(b, " may not call %s", d->call);
		if (d->object) {
			buf_add_str(b, " (");
			add_escaped(b, d->object);
			buf_add_char(b, ')');
		}
	}
	buf_printf(b, ": %s [%s]",
		   d->error ? strerrorname_np(d->error) : "empty", d->code);
	if (d->count > 1)
		buf_printf(b, " x%llu", (unsigned long long)d->count);
}

void denial_because(struct buf *b, const struct sandlock_denial *d)
{
	add_escaped(b, d->rule ? d->rule : "no rule allows it");
	if (d->where) {
		buf_add_str(b, ", ");
		add_escaped(b, d->where);
	}
}

void denial_remedy(struct buf *b, const struct sandlock_denial *d)
{
	if (!d->remedy) {
		buf_add_str(b, d->where ? "leave that rule out"
					: "no option does");
		return;
	}
	buf_add_str(b, "sandlock run ");
	add_escaped(b, d->remedy);
}

void denial_json(struct json_out *o, const struct sandlock_denial *d)
{
	json_out_object(o);
	json_out_str_member(o, "code", d->code);
	json_out_str_member(o, "call", d->call);
	json_out_str_member(o, "errno",
			    d->error ? strerrorname_np(d->error) : NULL);
	json_out_bytes_member(o, "object", d->object);
	json_out_bytes_member(o, "program", *d->program ? d->program : NULL);
	if (d->pid)
		json_out_int_member(o, "pid", d->pid);
	json_out_bytes_member(o, "rule", d->rule);
	json_out_bytes_member(o, "where", d->where);
	json_out_bytes_member(o, "remedy", d->remedy);
	json_out_uint_member(o, "count", d->count);
	utc_member(o, "first", &d->first, 0);
	utc_member(o, "last", &d->last, 0);
	json_out_object_end(o);
}

void last_denial_done(struct last_denial *l)
{
	free(l->headline);
	free(l->because);
	free(l->remedy);
}

int last_denial_take(void *data, const struct sandlock_denial *d)
{
	auto_(buf) struct buf headline = BUF_INIT, because = BUF_INIT,
			      remedy = BUF_INIT;
	struct last_denial *l = data;

	l->n++;
	if (strcmp(d->code, "limits.memory") == 0)
		l->n_killed = d->count;
	if (d->last.tv_sec < l->last.tv_sec ||
	    (d->last.tv_sec == l->last.tv_sec &&
	     d->last.tv_nsec < l->last.tv_nsec))
		return 0;
	last_denial_done(l);
	l->last = d->last;
	denial_headline(&headline, d);
	denial_because(&because, d);
	denial_remedy(&remedy, d);
	l->headline = buf_take(&headline, NULL);
	l->because = buf_take(&because, NULL);
	l->remedy = buf_take(&remedy, NULL);
	return 0;
}
