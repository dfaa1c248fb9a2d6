/*
 * A request as a profile and as JSON, by one walk over the table of keys: what
 * is printed parses back to an equal request.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/path.h"
#include "base/utf8.h"
#include "spec/request.h"

/* TOML goes to @b where @o is NULL. */
struct sink {
	struct buf *b;
	struct json_out *o;
	bool not_utf8; /* a string that TOML cannot hold */
	bool first;    /* of an array or an inline table */
};

static const void *place(const struct request *r, const struct request_key *k)
{
	return (const char *)r + k->offset;
}

static bool is_set(const struct request *r, const struct request_key *k)
{
	const void *at = place(r, k);

	switch (k->kind) {
	case REQUEST_STRING:
		return *(char *const *)at;
	case REQUEST_LIST:
	case REQUEST_ENV:
	case REQUEST_NET_ALLOW:
	case REQUEST_NET_DENY:
	case REQUEST_BIND_ALLOW:
	case REQUEST_BIND_DENY:
		return ((const struct spec_strings *)at)->n;
	case REQUEST_BOOL:
	case REQUEST_NOT:
		return *(const bool *)at;
	case REQUEST_SIZE:
	case REQUEST_TIME:
		return *(const uint64_t *)at;
	case REQUEST_COUNT:
		return *(const uint32_t *)at;
	case REQUEST_DISPOSE:
		return *(const enum disposition *)at != DISPOSE_UNSAID;
	case REQUEST_ISOLATION:
		return *(const enum isolation *)at != ISOLATION_AUTO;
	case REQUEST_MOUNTS:
		return r->n_mounts;
	case REQUEST_USER:
		return r->has_user;
	}
	return false;
}

/* A basic string; characters that hide are escaped, as in our JSON. */
static void add_toml_string(struct sink *s, const char *text, size_t len)
{
	const char *p = text, *end = text + len;

	buf_add_char(s->b, '"');
	while (p < end) {
		uint32_t cp;
		size_t n = utf8_decode(p, (size_t)(end - p), &cp);

		if (!n) {
			s->not_utf8 = true;
			break;
		}
		if (cp == '"' || cp == '\\')
			buf_printf(s->b, "\\%c", (int)cp);
		else if (cp == '\n')
			buf_add_str(s->b, "\\n");
		else if (utf8_is_hidden(cp))
			buf_printf(s->b, cp > 0xffff ? "\\U%08X" : "\\u%04X",
				   cp);
		else
			buf_add(s->b, p, n);
		p += n;
	}
	buf_add_char(s->b, '"');
}

static void put_bytes(struct sink *s, const char *text, size_t len)
{
	if (s->o)
		json_out_bytes(s->o, text, len);
	else
		add_toml_string(s, text, len);
}

static void put_string(struct sink *s, const char *text)
{
	put_bytes(s, text, strlen(text));
}

static void put_uint(struct sink *s, uint64_t v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	if (v > INT64_MAX)
		put_string(s, text);
	else if (s->o)
		json_out_uint(s->o, v);
	else
		buf_add_str(s->b, text);
}

static void put_bool(struct sink *s, bool v)
{
	if (s->o)
		json_out_bool(s->o, v);
	else
		buf_add_str(s->b, v ? "true" : "false");
}

static void next_item(struct sink *s)
{
	if (!s->o && !s->first)
		buf_add_str(s->b, ", ");
	s->first = false;
}

static void begin_array(struct sink *s)
{
	s->first = true;
	if (s->o)
		json_out_array(s->o);
	else
		buf_add_char(s->b, '[');
}

static void end_array(struct sink *s)
{
	if (s->o)
		json_out_array_end(s->o);
	else
		buf_add_char(s->b, ']');
}

static void put_list(struct sink *s, const struct spec_strings *l)
{
	begin_array(s);
	for (size_t i = 0; i < l->n; i++) {
		next_item(s);
		put_string(s, l->v[i]);
	}
	end_array(s);
}

/* Always said whether read-only, for a path that ends in ":ro" itself. */
static void add_mount(struct buf *b, const struct request_mount *m)
{
	buf_printf(b, "%s:%s:%s", m->inside, m->host,
		   m->read_only ? "ro" : "rw");
}

static void put_mounts(struct sink *s, const struct request *r)
{
	begin_array(s);
	for (size_t i = 0; i < r->n_mounts; i++) {
		auto_(buf) struct buf b = BUF_INIT;

		add_mount(&b, &r->mounts[i]);
		next_item(s);
		put_string(s, buf_str(&b));
	}
	end_array(s);
}

/* Names of variables are no keys of ours: any of them must fit. */
static void put_env(struct sink *s, const struct spec_strings *l)
{
	s->first = true;
	if (s->o)
		json_out_object(s->o);
	else
		buf_add_char(s->b, '{');
	for (size_t i = 0; i < l->n; i++) {
		const char *eq = strchr(l->v[i], '=');
		auto_free char *name = strndup(l->v[i], (size_t)(eq - l->v[i]));

		if (!name) {
			s->b->failed = true;
			break;
		}
		next_item(s);
		if (s->o) {
			json_out_key(s->o, name);
		} else {
			add_toml_string(s, name, strlen(name));
			buf_add_str(s->b, " = ");
		}
		put_string(s, eq + 1);
	}
	if (s->o)
		json_out_object_end(s->o);
	else
		buf_add_char(s->b, '}');
}

/* Whole seconds as a number, else milliseconds. */
static void put_time(struct sink *s, uint64_t ms)
{
	char text[32];

	if (ms % 1000 == 0) {
		put_uint(s, ms / 1000);
		return;
	}
	(void)snprintf(text, sizeof(text), "%llums", (unsigned long long)ms);
	put_string(s, text);
}

static void put_value(struct sink *s, const struct request *r,
		      const struct request_key *k)
{
	const void *at = place(r, k);
	char text[32];

	switch (k->kind) {
	case REQUEST_STRING:
		put_string(s, *(char *const *)at);
		break;
	case REQUEST_LIST:
	case REQUEST_NET_ALLOW:
	case REQUEST_NET_DENY:
	case REQUEST_BIND_ALLOW:
	case REQUEST_BIND_DENY:
		put_list(s, at);
		break;
	case REQUEST_ENV:
		put_env(s, at);
		break;
	case REQUEST_BOOL:
		put_bool(s, true);
		break;
	case REQUEST_NOT:
		put_bool(s, false);
		break;
	case REQUEST_SIZE:
		put_uint(s, *(const uint64_t *)at);
		break;
	case REQUEST_TIME:
		put_time(s, *(const uint64_t *)at);
		break;
	case REQUEST_COUNT:
		put_uint(s, *(const uint32_t *)at);
		break;
	case REQUEST_DISPOSE:
		put_string(s, disposition_name(*(const enum disposition *)at));
		break;
	case REQUEST_ISOLATION:
		put_string(s, isolation_name(*(const enum isolation *)at));
		break;
	case REQUEST_MOUNTS:
		put_mounts(s, r);
		break;
	case REQUEST_USER:
		(void)snprintf(text, sizeof(text), "%u:%u",
			       (unsigned int)r->uid, (unsigned int)r->gid);
		put_string(s, text);
		break;
	}
}

static size_t section_len(const struct request_key *k)
{
	return (size_t)(strchr(k->key, '.') - k->key);
}

static bool same_section(const struct request_key *a,
			 const struct request_key *b)
{
	size_t n = section_len(a);

	return n == section_len(b) && memcmp(a->key, b->key, n) == 0;
}

static void begin_section(struct sink *s, const struct request_key *k)
{
	size_t n = section_len(k);
	char name[32];

	(void)snprintf(name, sizeof(name), "%.*s", (int)n, k->key);
	if (s->o) {
		json_out_key(s->o, name);
		json_out_object(s->o);
	} else {
		buf_printf(s->b, "%s[%s]\n", s->b->len ? "\n" : "", name);
	}
}

static void put_section(struct sink *s, const struct request *r, size_t first)
{
	const struct request_key *head = &request_keys[first];
	bool begun = false;

	for (size_t i = first; i < request_n_keys; i++) {
		const struct request_key *k = &request_keys[i];
		const char *name = k->key + section_len(k) + 1;

		if (!same_section(k, head) || !is_set(r, k))
			continue;
		if (!begun)
			begin_section(s, k);
		begun = true;
		if (s->o)
			json_out_key(s->o, name);
		else
			buf_printf(s->b, "%s = ", name);
		put_value(s, r, k);
		if (!s->o)
			buf_add_char(s->b, '\n');
	}
	if (begun && s->o)
		json_out_object_end(s->o);
}

static void put_request(struct sink *s, const struct request *r)
{
	for (size_t i = 0; i < request_n_keys; i++) {
		bool seen = false;

		for (size_t k = 0; k < i; k++)
			seen |= same_section(&request_keys[k],
					     &request_keys[i]);
		if (!seen)
			put_section(s, r, i);
	}
}

int request_to_toml(const struct request *r, struct buf *ret)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct sink s = { .b = &b };

	put_request(&s, r);
	if (s.not_utf8)
		return -EILSEQ;
	buf_add(ret, b.data, b.len);
	return buf_failed(&b) || buf_failed(ret) ? -ENOMEM : 0;
}

void request_to_json(const struct request *r, struct json_out *o)
{
	struct buf unused = BUF_INIT;
	struct sink s = { .b = &unused, .o = o };

	put_request(&s, r);
}

struct visitor {
	int (*fn)(void *data, const char *key, const char *value);
	void *data;
	const char *key;
};

static int visit(const struct visitor *v, const char *value)
{
	return v->fn(v->data, v->key, value);
}

static int visit_list(const struct visitor *v, const struct spec_strings *l)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < l->n; i++)
		n = visit(v, l->v[i]);
	return n;
}

static int visit_mounts(const struct visitor *v, const struct request *r)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < r->n_mounts; i++) {
		auto_(buf) struct buf b = BUF_INIT;

		add_mount(&b, &r->mounts[i]);
		n = buf_failed(&b) ? -ENOMEM : visit(v, buf_str(&b));
	}
	return n;
}

static int visit_number(const struct visitor *v, uint64_t n, const char *unit)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)n,
		       unit);
	return visit(v, text);
}

static int visit_key(const struct visitor *v, const struct request *r,
		     const struct request_key *k)
{
	const void *at = place(r, k);
	char text[32];

	switch (k->kind) {
	case REQUEST_STRING:
		return visit(v, *(char *const *)at);
	case REQUEST_LIST:
	case REQUEST_ENV:
	case REQUEST_NET_ALLOW:
	case REQUEST_NET_DENY:
	case REQUEST_BIND_ALLOW:
	case REQUEST_BIND_DENY:
		return visit_list(v, at);
	case REQUEST_BOOL:
		return visit(v, "true");
	case REQUEST_NOT:
		return visit(v, "false");
	case REQUEST_SIZE:
		return visit_number(v, *(const uint64_t *)at, "");
	case REQUEST_TIME:
		return visit_number(v, *(const uint64_t *)at, "ms");
	case REQUEST_COUNT:
		return visit_number(v, *(const uint32_t *)at, "");
	case REQUEST_DISPOSE:
		return visit(v,
			     disposition_name(*(const enum disposition *)at));
	case REQUEST_ISOLATION:
		return visit(v, isolation_name(*(const enum isolation *)at));
	case REQUEST_MOUNTS:
		return visit_mounts(v, r);
	case REQUEST_USER:
		(void)snprintf(text, sizeof(text), "%u:%u",
			       (unsigned int)r->uid, (unsigned int)r->gid);
		return visit(v, text);
	}
	return 0;
}

static int visit_protections(struct visitor *v, const char *key, uint32_t mask)
{
	int n = 0;

	v->key = key;
	for (int i = 0; n == 0 && i < PROTECT_COUNT; i++)
		if (mask & UINT32_C(1) << i)
			n = visit(v, protection_name((enum protection)i));
	return n;
}

int request_each(const struct request *r,
		 int (*fn)(void *data, const char *key, const char *value),
		 void *data)
{
	struct visitor v = { .fn = fn, .data = data };
	int n = 0;

	for (size_t i = 0; n == 0 && i < request_n_keys; i++) {
		v.key = request_keys[i].key;
		if (is_set(r, &request_keys[i]))
			n = visit_key(&v, r, &request_keys[i]);
	}
	if (n == 0)
		n = visit_protections(&v, "allow_degraded", r->allow_degraded);
	if (n == 0)
		n = visit_protections(&v, "disable", r->disabled);
	v.key = "name";
	if (n == 0 && r->name)
		n = visit(&v, r->name);
	v.key = "dry_run";
	return n == 0 && r->dry_run ? visit(&v, "true") : n;
}
