/*
 * Cases for the parsers of spec/: text with ' for ", and what the message must
 * contain; a NULL message means that the text is accepted.
 */
#ifndef SANDLOCK_TESTS_SPEC_CASES_H
#define SANDLOCK_TESTS_SPEC_CASES_H

#include "base/log.h"
#include "spec/spec.h"
#include "unit.h"

#define ROOT "'ociVersion':'1.3.0','root':{'path':'rootfs'}"
#define DOC(x) "{" ROOT "," x "}"
#define USER "'user':{'uid':0,'gid':0}"
#define PROCESS(x) DOC("'process':{'cwd':'/','args':['sh']," USER "," x "}")
#define LINUX(x) DOC("'linux':{" x "}")
#define NS(x) "'namespaces':[" x "]"
#define MOUNT(x) DOC("'mounts':[{'destination':'/d'," x "}]")
#define HOOK(x) DOC("'hooks':{'poststop':[{" x "}]}")
#define ANNOTATION(k, v) DOC("'annotations':{'" k "':'" v "'}")

struct spec_case {
	const char *text, *msg;
};

CLEANUP_PTR(struct spec, spec_free);

/* With every ' as ". The caller frees it. */
static inline char *spec_quoted(const char *text)
{
	char *copy = strdup(text);

	assert_non_null(copy);
	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	return copy;
}

struct spec_log {
	char text[1024]; /* the last warning */
};

static inline void spec_log_write(void *data, enum log_level level,
				  const char *msg)
{
	struct spec_log *l = data;

	(void)snprintf(l->text, sizeof(l->text), "%s", msg);
}

/* The spec, or NULL and @err; the last warning in @log (may be NULL). */
static inline struct spec *spec_try(const char *text, struct spec_log *log,
				    struct error *err)
{
	struct log_sink sink = { spec_log_write, log };
	auto_free char *json = spec_quoted(text);
	struct spec *s = NULL;
	int r = spec_parse(json, strlen(json), "/bundle", log ? &sink : NULL,
			   &s, err);

	assert_true(r == 0 ? s != NULL : r < 0 && !s);
	return s;
}

static inline struct spec *spec_good(const char *text)
{
	struct error err = ERROR_INIT;
	struct spec *s = spec_try(text, NULL, &err);

	if (!s)
		fail_msg("%s\n%s", text, err.msg);
	return s;
}

static inline void spec_check_case(const struct spec_case *c)
{
	struct error err = ERROR_INIT;
	auto_ptr(spec_free) struct spec *s = spec_try(c->text, NULL, &err);

	if (!c->msg) {
		if (!s)
			fail_msg("%s\nis refused: %s", c->text, err.msg);
		return;
	}
	if (s)
		fail_msg("%s\nis accepted", c->text);
	assert_int_equal(err.kind, ERR_BUNDLE);
	if (!strstr(err.msg, c->msg))
		fail_msg("%s\nsays   '%s'\nwanted '%s'", c->text, err.msg,
			 c->msg);
	assert_null(spec_try(c->text, NULL, NULL));
}

#define CHECK_CASES(cases)                               \
	for (size_t i_ = 0; i_ < ARRAY_LEN(cases); i_++) \
	spec_check_case(&(cases)[i_])

#endif
