/* The annotations io.sandlock.*. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "spec/parse.h"
#include "spec/request.h"

#define PREFIX "io.sandlock."

static int read_want(const struct at *at, const char *value, struct spec *s)
{
	if (strcmp(value, "none") == 0)
		s->branch.want = SPEC_BRANCH_NONE;
	else if (strcmp(value, "yes") == 0)
		s->branch.want = SPEC_BRANCH_YES;
	else
		return at_fail(at, "'%s' is neither 'yes' nor 'none'",
			       SHOWN(value));
	return 0;
}

static int read_disposition(const struct at *at, const char *value,
			    enum disposition *ret)
{
	if (disposition_parse(value, ret) < 0)
		return at_fail(at,
			       "'%s' is none of 'commit', 'abort', "
			       "'keep', 'defer'",
			       SHOWN(value));
	return 0;
}

static int read_on_exit(const struct at *at, const char *value, struct spec *s)
{
	return read_disposition(at, value, &s->branch.on_exit);
}

static int read_on_error(const struct at *at, const char *value, struct spec *s)
{
	return read_disposition(at, value, &s->branch.on_error);
}

static int read_storage(const struct at *at, const char *value, struct spec *s)
{
	if (value[0] != '/')
		return at_fail(at, "'%s' is no absolute path", SHOWN(value));
	s->branch.storage = strdup(value);
	return s->branch.storage ? 0 : at_no_memory(at);
}

static int read_quota(const struct at *at, const char *value, struct spec *s)
{
	uint64_t n;

	if (request_parse_size(value, &n) < 0)
		return at_fail(at, "'%s' is no size like 512M", SHOWN(value));
	s->branch.quota_bytes = n;
	return 0;
}

static int read_durable(const struct at *at, const char *value, struct spec *s)
{
	bool yes = strcmp(value, "true") == 0;

	if (!yes && strcmp(value, "false") != 0)
		return at_fail(at, "'%s' is neither 'true' nor 'false'",
			       SHOWN(value));
	s->branch.has_durable = true;
	s->branch.durable = yes;
	return 0;
}

static int read_landlock(const struct at *at, const char *value, struct spec *s)
{
	s->landlock.wanted = strcmp(value, "yes") == 0;
	if (!s->landlock.wanted && strcmp(value, "no") != 0)
		return at_fail(at, "'%s' is neither 'yes' nor 'no'",
			       SHOWN(value));
	return 0;
}

/* "net-tcp,signal-scope" */
static int read_protections(const struct at *at, const char *value,
			    uint32_t *ret)
{
	auto_(spec_strings) struct spec_strings words = { .n = 0 };

	if (spec_strings_split(&words, value) < 0)
		return at_no_memory(at);
	for (size_t i = 0; i < words.n; i++) {
		enum protection which;

		if (protection_parse(words.v[i], &which) < 0)
			return at_fail(at, "'%s' is no protection",
				       SHOWN(words.v[i]));
		*ret |= UINT32_C(1) << which;
	}
	return 0;
}

/* What a command of the host has; bundles have the namespaces they name. */
static int read_isolation(const struct at *at, const char *value,
			  struct spec *s)
{
	enum isolation i;

	if (isolation_parse(value, &i) < 0 || i == ISOLATION_AUTO)
		return at_fail(at, "'%s' is neither 'namespaces' nor 'notify'",
			       SHOWN(value));
	return 0;
}

static int read_degraded(const struct at *at, const char *value, struct spec *s)
{
	return read_protections(at, value, &s->landlock.allow_degraded);
}

static int read_disabled(const struct at *at, const char *value, struct spec *s)
{
	return read_protections(at, value, &s->landlock.disabled);
}

/* "/usr/bin/git,curl" */
static int read_list(const struct at *at, const char *value,
		     struct spec_strings *ret)
{
	return spec_strings_split(ret, value) < 0 ? at_no_memory(at) : 0;
}

static int read_ask_exec(const struct at *at, const char *value, struct spec *s)
{
	return read_list(at, value, &s->ask.exec);
}

static int read_ask_open(const struct at *at, const char *value, struct spec *s)
{
	return read_list(at, value, &s->ask.open);
}

static int read_ask_connect(const struct at *at, const char *value,
			    struct spec *s)
{
	return read_list(at, value, &s->ask.connect);
}

static int read_ask_timeout(const struct at *at, const char *value,
			    struct spec *s)
{
	s->ask.timeout = strdup(value);
	return s->ask.timeout ? 0 : at_no_memory(at);
}

/* clang-format off */
static const struct {
	const char *key;
	int (*read)(const struct at *at, const char *value, struct spec *s);
} keys[] = {
	{ PREFIX "ask.connect",	    read_ask_connect },
	{ PREFIX "ask.exec",	    read_ask_exec },
	{ PREFIX "ask.open",	    read_ask_open },
	{ PREFIX "ask.timeout",	    read_ask_timeout },
	{ PREFIX "branch",	    read_want },
	{ PREFIX "branch.on-exit",  read_on_exit },
	{ PREFIX "branch.on-error", read_on_error },
	{ PREFIX "branch.storage",  read_storage },
	{ PREFIX "branch.quota",    read_quota },
	{ PREFIX "branch.durable",  read_durable },
	{ PREFIX "isolation",	    read_isolation },
	{ PREFIX "landlock",	    read_landlock },
	{ PREFIX "landlock.allow-degraded", read_degraded },
	{ PREFIX "landlock.disabled", read_disabled },
};
/* clang-format on */

static int read_one(const struct at *at, const struct spec_pair *a,
		    struct spec *s)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(a->key, keys[i].key) == 0)
			return keys[i].read(at, a->value, s);
	at_warn(at, "unknown annotation, ignored");
	return 0;
}

static bool says_more(const struct spec_branch *b)
{
	return b->on_exit != DISPOSE_UNSAID || b->on_error != DISPOSE_UNSAID ||
	       b->storage || b->quota_bytes || b->has_durable;
}

/* To say how is to ask for it; to say how and "none" makes no sense. */
int read_branch(const struct at *at, struct spec *s)
{
	struct at map = { .p = at->p, .up = at, .key = "annotations" };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < s->n_annotations; i++) {
		const struct spec_pair *a = &s->annotations[i];
		struct at item = { .p = at->p, .up = &map, .key = a->key };

		if (strncmp(a->key, PREFIX, strlen(PREFIX)) == 0)
			r = read_one(&item, a, s);
	}
	if (r < 0 || !says_more(&s->branch))
		return r;
	if (s->branch.want == SPEC_BRANCH_NONE)
		return at_fail(&map, "'" PREFIX "branch' is 'none', but other "
				     "annotations of it are given");
	s->branch.want = SPEC_BRANCH_YES;
	return 0;
}
