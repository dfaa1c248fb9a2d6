#include <limits.h>
#include <string.h>

#include "base/path.h"
#include "denials.h"

enum { STATUS_ALLOWED = 0, STATUS_DENIED = 1, STATUS_CANNOT_TELL = 2 };

struct why {
	const char *word; /* what was asked about, or NULL: all */
	bool json;
	struct json_out *out;
	size_t n;
	int status;
};

static bool is_about(const struct sandlock_denial *d, const char *word)
{
	return !word || strcmp(d->call, word) == 0 ||
	       strcmp(d->code, word) == 0 ||
	       (d->object && strcmp(d->object, word) == 0);
}

static int print_denial(void *data, const struct sandlock_denial *d)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct why *w = data;

	if (!is_about(d, w->word))
		return 0;
	w->n++;
	w->status = STATUS_DENIED;
	if (w->json) {
		denial_json(w->out, d);
		return 0;
	}
	denial_headline(&b, d);
	buf_add_str(&b, "\n  because: ");
	denial_because(&b, d);
	buf_add_str(&b, "\n  to allow: ");
	denial_remedy(&b, d);
	(void)puts(buf_str(&b));
	return 0;
}

static void take_verdict(struct why *w, enum sandlock_verdict v)
{
	if (v == SANDLOCK_DENIED)
		w->status = STATUS_DENIED;
	else if (v == SANDLOCK_CANNOT_TELL && w->status == STATUS_ALLOWED)
		w->status = STATUS_CANNOT_TELL;
}

static int print_answer(void *data, const struct sandlock_why *a)
{
	static const char *const words[] = {
		[SANDLOCK_ALLOWED] = "yes",
		[SANDLOCK_DENIED] = "no",
		[SANDLOCK_CANNOT_TELL] = "cannot tell",
	};
	auto_(buf) struct buf b = BUF_INIT;
	struct why *w = data;

	take_verdict(w, a->verdict);
	if (w->json) {
		json_out_object(w->out);
		json_out_str_member(w->out, "what", a->what);
		json_out_str_member(w->out, "answer", words[a->verdict]);
		json_out_str_member(w->out, "because", a->because);
		json_out_str_member(w->out, "remedy", a->remedy);
		json_out_object_end(w->out);
		return 0;
	}
	buf_printf(&b, "%s ", a->what);
	text_escape(&b, w->word, strlen(w->word));
	buf_printf(&b, ": %s\n  because: ", words[a->verdict]);
	text_escape(&b, a->because, strlen(a->because));
	if (a->remedy) {
		buf_add_str(&b, "\n  to allow: sandlock run ");
		text_escape(&b, a->remedy, strlen(a->remedy));
	}
	(void)puts(buf_str(&b));
	return 0;
}

/* A word that stands for a file here is one from here. */
static char *absolute(const char *word)
{
	char cwd[PATH_MAX];
	auto_free char *joined = NULL;

	if (word[0] == '/')
		return path_normalize(word);
	if (!strchr(word, '/') || !getcwd(cwd, sizeof(cwd)))
		return strdup(word);
	joined = path_join(cwd, word);
	return joined ? path_normalize(joined) : NULL;
}

/* Both parts: what happened, and what would happen. */
static int explain(struct ctx *ctx, const char *name, struct why *w,
		   struct sandlock_error *err)
{
	struct sandlock_error answered = { 0 };
	int r;

	if (w->json) {
		json_out_key(w->out, "denials");
		json_out_array(w->out);
	}
	r = sandlock_denials(&ctx->env, name, print_denial, w, err);
	if (w->json)
		json_out_array_end(w->out);
	if (r < 0 || !w->word)
		return r;
	if (w->json) {
		json_out_key(w->out, "answers");
		json_out_array(w->out);
	}
	r = sandlock_explain(&ctx->env, name, w->word, print_answer, w,
			     &answered);
	if (w->json)
		json_out_array_end(w->out);
	/* Of what has ended there is the record. */
	if (r < 0 && w->n)
		r = 0;
	if (r < 0)
		*err = answered;
	return r;
}

int cmd_why(struct ctx *ctx, struct args *args)
{
	auto_free char *name = NULL;
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);
	auto_free char *word = NULL;
	struct sandlock_error err = { 0 };
	struct why w = { .json = args_json(args), .out = o };
	int r;

	if (cmd_branch_name(ctx, args, &name, &err) < 0) {
		(void)cmd_fail(ctx, &err);
		return STATUS_CANNOT_TELL;
	}
	if (args->n_operands > 1) {
		word = absolute(args->operands[1]);
		if (!word)
			return cmd_fail_memory(ctx);
		w.word = word;
	}
	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.why/1");
	json_out_str_member(o, "name", name);
	if (explain(ctx, name, &w, &err) < 0) {
		(void)cmd_fail(ctx, &err);
		return STATUS_CANNOT_TELL;
	}
	json_out_object_end(o);
	if (w.json)
		r = print_json(ctx, o);
	else
		r = cmd_flush(ctx);
	if (!w.json && !w.n && !w.word)
		cmd_note(ctx, "nothing was refused to '%s'", name);
	return r ? r : w.status;
}
