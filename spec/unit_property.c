#include "spec/unit_property.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"

enum { USEC_PER_SEC = 1000000, NAME_MAX_BYTES = 64 };

/* clang-format off */
static const struct number_type {
	const char *word;
	char code;
	int64_t min;
	uint64_t max;
} number_types[] = {
	{ "byte",   'y', 0,         UINT8_MAX },
	{ "int16",  'n', INT16_MIN, INT16_MAX },
	{ "uint16", 'q', 0,         UINT16_MAX },
	{ "int32",  'i', INT32_MIN, INT32_MAX },
	{ "uint32", 'u', 0,         UINT32_MAX },
	{ "int64",  'x', INT64_MIN, INT64_MAX },
	{ "uint64", 't', 0,         UINT64_MAX },
	{ "double", 'd', 0,         0 },
};
/* clang-format on */

/* What is left of a value, and what it was found to be so far. */
struct reader {
	const char *p;
	char type; /* of the value or the elements; 0: not known */
	struct buf values;
	size_t n;
};

static void skip_blanks(struct reader *r)
{
	r->p += strspn(r->p, " \t");
}

static bool take_char(struct reader *r, char c)
{
	skip_blanks(r);
	if (*r->p != c)
		return false;
	r->p++;
	return true;
}

static bool take_word(struct reader *r, const char *word)
{
	size_t len = strlen(word);

	skip_blanks(r);
	if (strncmp(r->p, word, len) != 0 || isalnum((unsigned char)r->p[len]))
		return false;
	r->p += len;
	return true;
}

/* All elements are of one type. */
static bool is_type(struct reader *r, char type)
{
	if (!r->type)
		r->type = type;
	return r->type == type;
}

static const struct number_type *number_type_of(char code)
{
	for (size_t i = 0; i < ARRAY_LEN(number_types); i++)
		if (number_types[i].code == code)
			return &number_types[i];
	return NULL;
}

static bool is_in_range(const struct number_type *t, const char *text)
{
	bool negative = *text == '-';
	char *end;
	uint64_t v;

	errno = 0;
	if (t->code == 'd')
		return isfinite(strtod(text, &end)) && !*end && !errno;
	v = strtoull(text + (negative || *text == '+'), &end, 10);
	if (*end || errno)
		return false;
	return negative ? v <= (uint64_t)0 - (uint64_t)t->min : v <= t->max;
}

static bool read_number(struct reader *r)
{
	const struct number_type *t = NULL;
	size_t len, sign;
	char text[32];

	for (size_t i = 0; i < ARRAY_LEN(number_types) && !t; i++)
		if (take_word(r, number_types[i].word))
			t = &number_types[i];
	skip_blanks(r);
	sign = *r->p == '-' || *r->p == '+';
	len = sign + strspn(r->p + sign, "0123456789.");
	if (len >= sizeof(text) || !isdigit((unsigned char)r->p[sign]))
		return false;
	memcpy(text, r->p, len);
	text[len] = '\0';
	r->p += len;
	if (!t && r->type)
		t = number_type_of(r->type);
	else if (!t)
		t = number_type_of(strchr(text, '.') ? 'd' : 'i');
	if (!t || !is_type(r, t->code) || !is_in_range(t, text))
		return false;
	buf_add(&r->values, text, len + 1);
	return true;
}

static bool read_string(struct reader *r)
{
	char quote = *r->p++;

	if (!is_type(r, 's'))
		return false;
	for (; *r->p != quote; r->p++) {
		/* Of the escapes those that hide nothing. */
		if (*r->p == '\\' && !strchr("\\'\"", *++r->p))
			return false;
		if (!*r->p)
			return false;
		buf_add_char(&r->values, *r->p);
	}
	r->p++;
	buf_add_char(&r->values, '\0');
	return true;
}

static bool read_element(struct reader *r)
{
	bool yes;

	r->n++;
	skip_blanks(r);
	if (*r->p == '\'' || *r->p == '"')
		return read_string(r);
	yes = take_word(r, "true");
	if (!yes && !take_word(r, "false"))
		return read_number(r);
	buf_printf(&r->values, "%s%c", yes ? "true" : "false", 0);
	return is_type(r, 'b');
}

static bool read_array(struct reader *r)
{
	if (take_char(r, ']'))
		return r->type;
	do {
		if (!read_element(r))
			return false;
	} while (take_char(r, ','));
	return take_char(r, ']');
}

/* "@as": what follows is of this type. */
static bool read_annotation(struct reader *r, bool *ret_array)
{
	if (!take_char(r, '@'))
		return true;
	*ret_array = *r->p == 'a';
	r->p += *ret_array;
	r->type = *r->p;
	return r->type && strchr("bsynqiuxtd", r->type) && *++r->p == ' ';
}

static bool read_value(struct reader *r, bool *ret_array)
{
	bool said = false;

	if (!read_annotation(r, &said))
		return false;
	*ret_array = take_char(r, '[');
	if (said && !*ret_array)
		return false;
	if (r->type && !said && *ret_array)
		return false;
	if (*ret_array ? !read_array(r) : !read_element(r))
		return false;
	skip_blanks(r);
	return !*r->p;
}

/* "TimeoutStopSec" of 1.5 is "TimeoutStopUSec" of 1500000. */
static bool add_seconds(const char *name, const struct reader *r,
			struct buf *words)
{
	double usec;

	if (!number_type_of(r->type))
		return false;
	usec = strtod(buf_str(&r->values), NULL) * USEC_PER_SEC;
	if (!(usec >= 0 && usec < (double)INT64_MAX))
		return false;
	buf_printf(words, "%.*sUSec%ct%c%" PRIu64 "%c", (int)strlen(name) - 3,
		   name, 0, 0, (uint64_t)usec, 0);
	return true;
}

static bool ends_in(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len > n && strcmp(text + len - n, end) == 0;
}

static int check_name(const char *name, struct error *err)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]))
			len = 0;
	if (len == 0 || len > NAME_MAX_BYTES)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "annotation '" SPEC_UNIT_PROPERTY
				 "%.64s': that is no name of a property",
				 name);
	/* It would take somebody else's processes into the sandbox. */
	if (strcmp(name, "PIDs") == 0)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "annotation '" SPEC_UNIT_PROPERTY
				 "PIDs' is not for a bundle to say");
	return 0;
}

static int value_error(const char *name, struct error *err)
{
	(void)error_say(err, ERR_BUNDLE, EINVAL,
			"annotation '" SPEC_UNIT_PROPERTY
			"%s' has no value that can be used",
			name);
	return error_hint(err, "values are in GVariant's text format: true, "
			       "uint64 7, 'text', ['a', 'b']");
}

int unit_property_parse(const char *name, const char *text, struct buf *words,
			struct error *err)
{
	struct reader r = { .p = text, .values = BUF_INIT };
	bool array = false, good;
	int e = check_name(name, err);

	if (e < 0)
		return e;
	good = strlen(text) <= UNIT_PROPERTY_MAX && read_value(&r, &array);
	if (good && ends_in(name, "Sec") && !ends_in(name, "USec")) {
		good = !array && add_seconds(name, &r, words);
	} else if (good) {
		buf_printf(words, "%s%c%s%c%c", name, 0, array ? "a" : "",
			   r.type, 0);
		if (array)
			buf_printf(words, "%zu%c", r.n, 0);
		buf_add(words, r.values.data, r.values.len);
	}
	if (buf_failed(&r.values) || buf_failed(words))
		e = error_set(err, ERR_SYSTEM, ENOMEM, "unit properties");
	buf_done(&r.values);
	return e == 0 && !good ? value_error(name, err) : e;
}
