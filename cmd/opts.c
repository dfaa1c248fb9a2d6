#include "opts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/nearest.h"
#include "cmd.h"
#include "sandlock.h"

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; i < verb_table_len; i++) {
		const struct verb *v = &verb_table[i];

		if (!strcmp(v->name, name) ||
		    (v->alias && !strcmp(v->alias, name)))
			return v;
	}
	return NULL;
}

static bool is_name(const char *own, const char *name, size_t n)
{
	return own && own[0] == name[0] && !strncmp(own, name, n) && !own[n];
}

const struct opt *opt_find_long(enum verb_id verb, const char *name, size_t n)
{
	for (size_t i = 0; i < opt_table_len; i++) {
		const struct opt *o = &opt_table[i];

		if (opt_is_of(o, verb) &&
		    (is_name(o->name, name, n) || is_name(o->alias, name, n)))
			return o;
	}
	return NULL;
}

const struct opt *opt_find_letter(enum verb_id verb, char letter)
{
	for (size_t i = 0; i < opt_table_len; i++)
		if (opt_is_of(&opt_table[i], verb) &&
		    opt_table[i].letter == letter)
			return &opt_table[i];
	return NULL;
}

static const char *nth_option(const void *v, size_t i)
{
	const enum verb_id *verb = v;
	const struct opt *o = &opt_table[i];

	return opt_is_of(o, *verb) && !(o->flags & OPT_HIDDEN) ? o->name : NULL;
}

struct parse {
	enum verb_id id;
	const char *what; /* "create", or NULL for global options */
	char *const *argv;
	size_t i;
	struct args *a;
	struct sandlock_error *err;
};

static int no_memory(struct sandlock_error *err)
{
	return cmd_error(err, SANDLOCK_ERR_SYSTEM, ENOMEM, "out of memory");
}

static int unknown_option(struct parse *p, const char *word, const char *name)
{
	const char *near =
		nearest_word(name, nth_option, &p->id, opt_table_len);

	if (p->what)
		(void)cmd_error(p->err, SANDLOCK_ERR_USAGE, 0,
				"unknown option '%s' for '%s'", word, p->what);
	else
		(void)cmd_error(p->err, SANDLOCK_ERR_USAGE, 0,
				"unknown option '%s'", word);
	if (near)
		return cmd_hint(p->err, "did you mean '--%s'?", near);
	return cmd_hint(p->err, "sandlock %s%s--help lists them",
			p->what ? p->what : "", p->what ? " " : "");
}

static bool is_word_of(const char *values, const char *word)
{
	size_t n = strlen(word);

	for (const char *s = values; n && s; s = strchr(s, '|')) {
		s += *s == '|';
		if (!strncmp(s, word, n) && (s[n] == '|' || !s[n]))
			return true;
	}
	return false;
}

static bool is_number(const char *s)
{
	char *end;

	errno = 0;
	(void)strtoll(s, &end, 10);
	return *s && (*s == '-' || (*s >= '0' && *s <= '9')) && !*end && !errno;
}

static int add_value(struct parse *p, const struct arg_value *v)
{
	const struct opt *o = v->opt;
	struct args *a = p->a;

	if (v->value && o->kind == OPT_ENUM &&
	    !is_word_of(o->values, v->value)) {
		(void)cmd_error(p->err, SANDLOCK_ERR_USAGE, 0,
				"invalid value '%s' for '%s'", v->value, v->as);
		return cmd_hint(p->err, "one of %s", o->values);
	}
	if (v->value && o->kind == OPT_NUMBER && !is_number(v->value))
		return cmd_error(p->err, SANDLOCK_ERR_USAGE, 0,
				 "'%s' for '%s' is no number", v->value, v->as);
	/* Grown at every power of two. */
	if (!(a->n_values & (a->n_values - 1))) {
		size_t cap = a->n_values ? 2 * a->n_values : 1;
		void *bigger = reallocarray(a->values, cap, sizeof(*a->values));

		if (!bigger)
			return no_memory(p->err);
		a->values = bigger;
	}
	a->values[a->n_values++] = *v;
	return 0;
}

/* The next word; "--" is what ends the options, and never meant as a value. */
static int take_next(struct parse *p, struct arg_value *v)
{
	v->value = p->argv[p->i];
	if (!v->value || strcmp(v->value, "--") == 0)
		return cmd_error(p->err, SANDLOCK_ERR_USAGE, 0,
				 "option '%s' needs a value: %s", v->as,
				 v->opt->arg);
	p->i++;
	return add_value(p, v);
}

static int parse_long(struct parse *p)
{
	const char *word = p->argv[p->i++], *name = word + 2;
	const char *value = strchr(name, '=');
	size_t n = value ? (size_t)(value - name) : strlen(name);
	const struct opt *o = opt_find_long(p->id, name, n);
	struct arg_value v = { .no = false };

	if (!o && n > 3 && !strncmp(name, "no-", 3)) {
		o = opt_find_long(p->id, name + 3, n - 3);
		v.no = true;
		if (o && !(o->flags & OPT_NEGATABLE))
			o = NULL;
	}
	if (!o) {
		auto_free char *bare = strndup(name, n);
		auto_(buf) struct buf shown = BUF_INIT;

		buf_printf(&shown, "--%s", bare ? bare : "");
		return unknown_option(p, buf_str(&shown), bare ? bare : "");
	}
	v.opt = o;
	(void)snprintf(v.as, sizeof(v.as), "--%.*s", (int)n, name);
	if (o->kind == OPT_FLAG && value)
		return cmd_error(p->err, SANDLOCK_ERR_USAGE, 0,
				 "option '%s' takes no value", v.as);
	v.value = value ? value + 1 : NULL;
	return o->kind == OPT_FLAG || value ? add_value(p, &v)
					    : take_next(p, &v);
}

static int parse_short(struct parse *p)
{
	const char *word = p->argv[p->i++];
	int r;

	for (const char *s = word + 1; *s; s++) {
		const struct opt *o = opt_find_letter(p->id, *s);
		struct arg_value v = { .opt = o, .as = { '-', *s } };

		if (!o) {
			char shown[3] = { '-', *s, 0 };

			return unknown_option(
				p, s == word + 1 && s[1] ? word : shown,
				word + 1);
		}
		if (o->kind == OPT_FLAG) {
			r = add_value(p, &v);
			if (r < 0)
				return r;
			continue;
		}
		if (!s[1])
			return take_next(p, &v);
		v.value = s[1] == '=' ? s + 2 : s + 1;
		return add_value(p, &v);
	}
	return 0;
}

/* Fills @p->a; @stop: options end at the first operand. */
static int parse_words(struct parse *p, bool stop)
{
	bool only_operands = false;

	for (p->i = 0; p->argv[p->i];) {
		const char *word = p->argv[p->i];
		int r;

		if (only_operands || word[0] != '-' || !word[1]) {
			if (stop && p->id == VERB_GLOBAL)
				return 0;
			if (stop)
				only_operands = true;
			p->a->operands[p->a->n_operands++] = word;
			p->i++;
			continue;
		}
		if (!strcmp(word, "--")) {
			/* Later ones belong to the command line inside. */
			p->a->dashes = true;
			only_operands = true;
			p->i++;
			continue;
		}
		r = word[1] == '-' ? parse_long(p) : parse_short(p);
		if (r < 0)
			return r;
	}
	return 0;
}

void args_done(struct args *a)
{
	free(a->values);
	free(a->operands);
	*a = (struct args){ .verb = a->verb };
}

/* @argv begins with the verb, if there is one. */
static int parse_into(const struct verb *verb, char *const *argv, bool stop,
		      struct args *ret, size_t *ret_used,
		      struct sandlock_error *err)
{
	auto_(args) struct args a = { .verb = verb };
	struct parse p = {
		.id = verb ? verb->id : VERB_GLOBAL,
		.what = verb ? argv[0] : NULL,
		.argv = verb ? argv + 1 : argv,
		.a = &a,
		.err = err,
	};
	size_t n = 0;
	int r;

	while (p.argv[n])
		n++;
	a.operands = calloc(n + 1, sizeof(*a.operands));
	if (!a.operands)
		return no_memory(err);
	r = parse_words(&p, stop);
	if (r < 0)
		return r;
	if (ret_used)
		*ret_used = p.i;
	*ret = a;
	a = (struct args){ .verb = verb };
	return 0;
}

static int check_operands(const struct verb *v, const char *name,
			  const struct args *a, bool engine,
			  struct sandlock_error *err)
{
	int min = v->min;

	/* An engine always says the name. */
	if (engine && (v->flags & VERB_ENGINE_NEEDS_NAME))
		min = 1;
	if ((int)a->n_operands < min)
		(void)cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				"missing operand for '%s'", name);
	else if (v->max >= 0 && (int)a->n_operands > v->max)
		(void)cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				"unexpected operand '%s' for '%s'",
				a->operands[v->max], name);
	else
		return 0;
	return cmd_hint(err, "usage: sandlock %s%s%.*s", name,
			*v->operands ? " " : "",
			(int)strcspn(v->operands, "\n"), v->operands);
}

/*
 * `run NAME -b BUNDLE` and `run -b BUNDLE NAME -d` name a bundle, `run -- ls
 * -b` is a command line. So options are looked for everywhere first, and that
 * reading holds if it finds -b, or nothing but one operand without "--".
 */
static int parse_run(const struct verb *verb, char *const *argv,
		     struct args *ret, struct sandlock_error *err)
{
	auto_(args) struct args a = { .verb = verb };
	struct sandlock_error first = { 0 };
	int r;

	r = parse_into(verb, argv, false, &a, NULL, &first);
	if (!r && (args_has_value(&a, "bundle") || args_has(&a, "help") ||
		   (!a.dashes && a.n_operands <= 1))) {
		*ret = a;
		a = (struct args){ .verb = verb };
		return 0;
	}
	args_done(&a);
	r = parse_into(verb, argv, true, &a, NULL, err);
	if (r < 0)
		return r;
	if (args_has_value(&a, "bundle") && first.kind) {
		*err = first;
		return -EINVAL;
	}
	*ret = a;
	a = (struct args){ .verb = verb };
	return 0;
}

int args_parse_globals(char *const *argv, struct args *ret, size_t *ret_used,
		       struct sandlock_error *err)
{
	return parse_into(NULL, argv, true, ret, ret_used, err);
}

int args_parse(const struct verb *verb, bool engine, char *const *argv,
	       struct args *ret, struct sandlock_error *err)
{
	auto_(args) struct args a = { .verb = verb };
	int r;

	if ((verb->flags & VERB_STOPS_UNLESS_BUNDLE) && !engine)
		r = parse_run(verb, argv, &a, err);
	else
		r = parse_into(verb, argv, verb->flags & VERB_STOPS, &a, NULL,
			       err);
	if (r < 0)
		return r;
	if (!args_has(&a, "help")) {
		r = check_operands(verb, argv[0], &a, engine, err);
		if (r < 0)
			return r;
	}
	*ret = a;
	a = (struct args){ .verb = verb };
	return 0;
}

static const struct arg_value *find_value(const struct args *a,
					  const char *name)
{
	enum verb_id id = a->verb ? a->verb->id : VERB_GLOBAL;

	assert(opt_find_long(id, name, strlen(name)));
	for (size_t i = a->n_values; i-- > 0;)
		if (!strcmp(a->values[i].opt->name, name))
			return &a->values[i];
	return NULL;
}

const char *args_str(const struct args *a, const char *name)
{
	const struct arg_value *v = find_value(a, name);

	return v ? v->value : NULL;
}

const struct arg_value *args_first_of(const struct args *a,
				      const char *const *names, size_t n)
{
	for (size_t i = 0; i < a->n_values; i++)
		for (size_t k = 0; k < n; k++)
			if (strcmp(a->values[i].opt->name, names[k]) == 0)
				return &a->values[i];
	return NULL;
}

const char *args_as(const struct args *a, const char *name)
{
	const struct arg_value *v = find_value(a, name);

	return v ? v->as : NULL;
}

int args_flag(const struct args *a, const char *name)
{
	const struct arg_value *v = find_value(a, name);

	return v ? !v->no : -1;
}

bool args_has(const struct args *a, const char *name)
{
	return args_flag(a, name) == 1;
}

bool args_has_value(const struct args *a, const char *name)
{
	return find_value(a, name);
}

int64_t args_number(const struct args *a, const char *name, int64_t dflt)
{
	const char *s = args_str(a, name);

	return s ? strtoll(s, NULL, 10) : dflt;
}

int args_list(const struct args *a, const char *name, const char ***ret,
	      size_t *ret_n)
{
	const char **v;
	size_t n = 0;

	*ret = NULL;
	*ret_n = 0;
	if (!find_value(a, name))
		return 0;
	v = calloc(a->n_values + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_values; i++)
		if (!strcmp(a->values[i].opt->name, name))
			v[n++] = a->values[i].value;
	*ret = v;
	*ret_n = n;
	return 0;
}

bool args_json(const struct args *a)
{
	const char *format = args_str(a, "format");

	return args_has(a, "json") || (format && !strcmp(format, "json"));
}
