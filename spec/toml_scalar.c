/* Strings, numbers, dates. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/path.h"
#include "spec/toml_reader.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static void add_utf8(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_add_char(b, (char)c);
		return;
	}
	if (c < 0x800) {
		buf_add_char(b, (char)(0xc0 | c >> 6));
	} else {
		if (c < 0x10000) {
			buf_add_char(b, (char)(0xe0 | c >> 12));
		} else {
			buf_add_char(b, (char)(0xf0 | c >> 18));
			buf_add_char(b, (char)(0x80 | (c >> 12 & 0x3f)));
		}
		buf_add_char(b, (char)(0x80 | (c >> 6 & 0x3f)));
	}
	buf_add_char(b, (char)(0x80 | (c & 0x3f)));
}

/* The digits of \uXXXX and \UXXXXXXXX. */
static int read_code_point(struct toml_reader *r, struct toml_place at,
			   int digits, struct buf *b)
{
	uint32_t c = 0;

	for (; digits > 0; digits--, r->p++) {
		int v = r->p < r->end ? digit_value(*r->p) : 99;

		if (v > 15)
			return toml_fail(r, at,
					 "\\u takes 4 hexadecimal "
					 "digits, \\U takes 8");
		c = c << 4 | (uint32_t)v;
	}
	if (!c)
		return toml_fail(r, at, "a string cannot have a NUL in it");
	if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return toml_fail(r, at, "U+%X is no character", c);
	add_utf8(b, c);
	return 0;
}

/* "\" at the end of a line: the blanks and line ends that follow are gone. */
static bool skip_line_end(struct toml_reader *r)
{
	const char *start = r->p;

	toml_skip_blanks(r);
	if (!toml_take_newline(r)) {
		r->p = start;
		return false;
	}
	do {
		toml_skip_blanks(r);
	} while (toml_take_newline(r));
	return true;
}

static int read_escape(struct toml_reader *r, bool multi, struct buf *b)
{
	static const char names[] = "btnfr\"\\", chars[] = "\b\t\n\f\r\"\\";
	struct toml_place at = toml_here(r);
	const char *name;
	char c;

	r->p++;
	if (multi && skip_line_end(r))
		return 0;
	c = r->p < r->end ? *r->p : '\0';
	name = c ? strchr(names, c) : NULL;
	if (!name && c != 'u' && c != 'U')
		return toml_fail(r, at,
				 "there is no such escape: a backslash "
				 "is written '\\\\'");
	r->p++;
	if (!name)
		return read_code_point(r, at, c == 'u' ? 4 : 8, b);
	buf_add_char(b, chars[name - names]);
	return 0;
}

/*
 * The closing quotes, with up to two of the same in front of them that belong
 * to the string.
 */
static bool take_closing(struct toml_reader *r, char quote, bool multi,
			 struct buf *b)
{
	const char *p = r->p;

	if (*p != quote)
		return false;
	if (!multi) {
		r->p++;
		return true;
	}
	while (p < r->end && *p == quote && p - r->p < 5)
		p++;
	if (p - r->p < 3)
		return false;
	buf_add(b, r->p, (size_t)(p - r->p - 3));
	r->p = p;
	return true;
}

/* One character of a string that is neither quote nor escape. */
static int read_plain(struct toml_reader *r, bool multi, struct buf *b)
{
	unsigned char c = (unsigned char)*r->p;

	if (multi && toml_take_newline(r)) {
		buf_add_char(b, '\n');
		return 0;
	}
	if (c == '\n' || c == '\r')
		return toml_fail(r, toml_here(r), "the string is not closed");
	if ((c < 0x20 && c != '\t') || c == 0x7f)
		return toml_fail(r, toml_here(r), "a control character");
	buf_add_char(b, *r->p++);
	return 0;
}

static int read_string(struct toml_reader *r, bool multi_allowed, char **ret)
{
	struct toml_place at = toml_here(r);
	auto_(buf) struct buf b = BUF_INIT;
	char quote = *r->p;
	bool multi = toml_sees(r, quote == '"' ? "\"\"\"" : "'''");
	int n = 0;

	if (multi && !multi_allowed)
		return toml_fail(r, at, "a key is written in one line");
	r->p += multi ? 3 : 1;
	if (multi)
		(void)toml_take_newline(r);
	while (n == 0) {
		if (r->p == r->end)
			return toml_fail(r, at, "the string is not closed");
		if (take_closing(r, quote, multi, &b))
			break;
		if (quote == '"' && *r->p == '\\')
			n = read_escape(r, multi, &b);
		else
			n = read_plain(r, multi, &b);
	}
	if (n < 0)
		return n;
	*ret = buf_take(&b, NULL);
	return *ret ? 0 : toml_no_memory(r);
}

int toml_read_quoted(struct toml_reader *r, char **ret)
{
	return read_string(r, false, ret);
}

/* @n digits that make a number; -1 if they are none. */
static int fixed_digits(const char **s, int n)
{
	int v = 0;

	for (; n > 0; n--, (*s)++) {
		if (!is_digit(**s))
			return -1;
		v = v * 10 + (**s - '0');
	}
	return v;
}

static bool take_char(const char **s, char c)
{
	if (**s != c)
		return false;
	(*s)++;
	return true;
}

static bool take_date(const char **s)
{
	static const int days[] = { 31, 29, 31, 30, 31, 30,
				    31, 31, 30, 31, 30, 31 };
	int year = fixed_digits(s, 4);
	int month, day;
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	if (year < 0 || !take_char(s, '-'))
		return false;
	month = fixed_digits(s, 2);
	if (month < 1 || month > 12 || !take_char(s, '-'))
		return false;
	day = fixed_digits(s, 2);
	return day >= 1 && day <= days[month - 1] &&
	       (month != 2 || day < 29 || leap);
}

static bool take_in_range(const char **s, int max)
{
	int v = fixed_digits(s, 2);

	return v >= 0 && v <= max;
}

static bool take_time(const char **s)
{
	if (!take_in_range(s, 23) || !take_char(s, ':') ||
	    !take_in_range(s, 59) || !take_char(s, ':') ||
	    !take_in_range(s, 60))
		return false;
	if (!take_char(s, '.'))
		return true;
	if (!is_digit(**s))
		return false;
	while (is_digit(**s))
		(*s)++;
	return true;
}

static bool take_offset(const char **s)
{
	if (**s == 'Z' || **s == 'z') {
		(*s)++;
		return true;
	}
	if (!take_char(s, '+') && !take_char(s, '-'))
		return false;
	return take_in_range(s, 23) && take_char(s, ':') &&
	       take_in_range(s, 59);
}

static bool is_date(const char *s)
{
	if (s[2] == ':')
		return take_time(&s) && !*s;
	if (!take_date(&s))
		return false;
	if (!*s)
		return true;
	if (*s != 'T' && *s != 't' && *s != ' ')
		return false;
	s++;
	if (!take_time(&s))
		return false;
	return !*s || (take_offset(&s) && !*s);
}

/*
 * Takes the underscores out of @s; false where one does not stand between two
 * digits.
 */
static bool strip_underscores(const char *s, char *to, int base)
{
	for (const char *p = s; *p; p++) {
		if (*p != '_') {
			*to++ = *p;
			continue;
		}
		if (p == s || digit_value(p[-1]) >= base ||
		    digit_value(p[1]) >= base)
			return false;
	}
	*to = '\0';
	return true;
}

/* Digits of @base; 0, -EINVAL, -ERANGE. */
static int parse_integer(const char *s, bool negative, int base, int64_t *ret)
{
	uint64_t v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		int d = digit_value(*s);

		if (d >= base)
			return -EINVAL;
		if (__builtin_mul_overflow(v, (uint64_t)base, &v) ||
		    __builtin_add_overflow(v, (uint64_t)d, &v))
			return -ERANGE;
	}
	if (v > (uint64_t)INT64_MAX + negative)
		return -ERANGE;
	*ret = negative ? (int64_t)(0 - v) : (int64_t)v;
	return 0;
}

static const char *skip_digits(const char *s)
{
	while (is_digit(*s))
		s++;
	return s;
}

static bool has_leading_zero(const char *digits)
{
	return digits[0] == '0' && is_digit(digits[1]);
}

static bool is_float(const char *digits)
{
	const char *s = skip_digits(digits);

	if (strcmp(digits, "inf") == 0 || strcmp(digits, "nan") == 0)
		return true;
	if (s == digits || has_leading_zero(digits))
		return false;
	if (*s == '.') {
		const char *start = ++s;

		s = skip_digits(s);
		if (s == start)
			return false;
	}
	if (*s == 'e' || *s == 'E') {
		const char *start = ++s;

		if (*s == '+' || *s == '-')
			start = ++s;
		s = skip_digits(s);
		if (s == start)
			return false;
	}
	return !*s;
}

static int integer_base(const char *s)
{
	if (s[0] != '0')
		return 10;
	switch (s[1]) {
	case 'x':
		return 16;
	case 'o':
		return 8;
	case 'b':
		return 2;
	}
	return 10;
}

static int read_number(const char *word, struct toml *v)
{
	bool sign = *word == '-' || *word == '+';
	int base = integer_base(word);
	char digits[128];
	int n;

	if (strlen(word) >= sizeof(digits) ||
	    !strip_underscores(word + sign + (base == 10 ? 0 : 2), digits,
			       base))
		return -EINVAL;
	n = base == 10 && has_leading_zero(digits)
		    ? -EINVAL
		    : parse_integer(digits, *word == '-', base, &v->integer);
	if (n == 0)
		v->type = TOML_INTEGER;
	if (n != -EINVAL)
		return n;
	if (base != 10 || !is_float(digits))
		return -EINVAL;
	v->type = TOML_FLOAT;
	v->text = strdup(word);
	return v->text ? 0 : -ENOMEM;
}

static bool is_word_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '+' ||
	       c == '.' || c == ':';
}

static bool looks_like_date(const char *s)
{
	return strlen(s) >= 5 && is_digit(s[0]) && is_digit(s[1]) &&
	       (s[2] == ':' ||
		(is_digit(s[2]) && is_digit(s[3]) && s[4] == '-'));
}

/* A word, and behind a date a blank and the time. */
static int take_word(struct toml_reader *r, char *word, size_t size)
{
	const char *start = r->p;
	size_t n;

	while (r->p < r->end && is_word_char(*r->p))
		r->p++;
	if (r->p - start == 10 && start[4] == '-' && r->end - r->p > 3 &&
	    *r->p == ' ' && is_digit(r->p[1]) && is_digit(r->p[2]) &&
	    r->p[3] == ':')
		for (r->p++; r->p < r->end && is_word_char(*r->p);)
			r->p++;
	n = (size_t)(r->p - start);
	if (!n || n >= size)
		return -EINVAL;
	memcpy(word, start, n);
	word[n] = '\0';
	return 0;
}

static int read_word(struct toml_reader *r, struct toml *v)
{
	char word[128];
	int n = take_word(r, word, sizeof(word));

	if (n < 0)
		return toml_fail(r, v->at, "there is no value");
	if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
		v->type = TOML_BOOL;
		v->boolean = *word == 't';
		return 0;
	}
	if (looks_like_date(word)) {
		if (!is_date(word))
			return toml_fail(r, v->at, "'%s' is no date or time",
					 word);
		v->text = strdup(word);
		v->type = TOML_DATE;
		return v->text ? 0 : toml_no_memory(r);
	}
	n = read_number(word, v);
	if (n == -ENOMEM)
		return toml_no_memory(r);
	if (n == -ERANGE)
		return toml_fail(r, v->at, "'%s' is out of range", word);
	if (n < 0)
		return toml_fail(r, v->at,
				 "'%s' is no value: text stands in "
				 "quotes",
				 word);
	return 0;
}

int toml_read_scalar(struct toml_reader *r, struct toml *v)
{
	if (r->p < r->end && (*r->p == '"' || *r->p == '\'')) {
		v->type = TOML_STRING;
		return read_string(r, true, &v->text);
	}
	return read_word(r, v);
}
