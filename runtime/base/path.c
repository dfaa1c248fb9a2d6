#include "base/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"

static bool is_name_char(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c >= '0' && c <= '9') || (c && strchr("_+.-", c));
}

int name_check(const char *name, struct error *err)
{
	auto_(buf) struct buf shown = BUF_INIT;
	size_t len = strnlen(name, LIMIT_NAME + 1);
	const char *why = NULL;

	if (len == 0)
		return error_say(err, ERR_NAME, EINVAL, "the name is empty");
	if (len > LIMIT_NAME)
		why = "is longer than 255 characters";
	else if (name[0] == '.')
		why = "starts with a dot";
	for (size_t i = 0; i < len && !why; i++)
		if (!is_name_char(name[i]))
			why = "has a character other than A-Z a-z 0-9 _ + . -";
	if (!why)
		return 0;
	text_escape(&shown, name, len);
	(void)error_say(err, ERR_NAME, EINVAL, "'%s' cannot be a name: it %s",
			buf_str(&shown), why);
	return error_hint(err, "such as web or build-2");
}

bool path_is_under(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n > 0 && dir[n - 1] == '/')
		n--;
	return strncmp(path, dir, n) == 0 &&
	       (path[n] == '\0' || path[n] == '/');
}

const char *path_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n > 0 && dir[n - 1] == '/')
		n--;
	return path[n] ? path + n : "/";
}

char *path_join(const char *dir, const char *name)
{
	auto_(buf) struct buf b = BUF_INIT;

	buf_add_str(&b, dir);
	while (*name == '/')
		name++;
	if (b.len > 0 && b.data[b.len - 1] != '/')
		buf_add_char(&b, '/');
	buf_add_str(&b, name);
	return buf_take(&b, NULL);
}

/* Drops the last component of @out, whose first @keep bytes stay. */
static size_t drop_last(const char *out, size_t len, size_t keep)
{
	while (len > keep && out[len - 1] != '/')
		len--;
	return len > keep ? len - 1 : keep;
}

bool path_ends_in_dots(const char *path)
{
	size_t n = strlen(path), len = 0;

	while (n > 1 && path[n - 1] == '/')
		n--;
	while (len < n && path[n - 1 - len] != '/')
		len++;
	return len <= 2 && strspn(path + n - len, ".") >= len;
}

char *path_normalize(const char *path)
{
	size_t root = path[0] == '/';
	size_t keep = root; /* "/", or the leading "../.." of a relative path */
	size_t len = root;
	char *out = malloc(strlen(path) + 2);

	if (!out)
		return NULL;
	out[0] = '/';
	while (*path) {
		size_t n = strcspn(path, "/");
		bool up = n == 2 && memcmp(path, "..", 2) == 0;

		if (up && len > keep) {
			len = drop_last(out, len, keep);
		} else if (n > 0 && !(n == 1 && *path == '.') &&
			   !(up && root)) {
			if (len > root)
				out[len++] = '/';
			memcpy(out + len, path, n);
			len += n;
			if (up)
				keep = len;
		}
		path += n;
		path += *path == '/';
	}
	if (len == 0)
		out[len++] = '.';
	out[len] = '\0';
	return out;
}

static bool is_plain(const char *s, size_t n)
{
	while (n > 0) {
		uint32_t cp;
		size_t len = utf8_decode(s, n, &cp);

		if (len == 0 || utf8_is_hidden(cp) || cp == '"' || cp == '\\')
			return false;
		s += len;
		n -= len;
	}
	return true;
}

static void quote_byte(struct buf *b, unsigned char c)
{
	static const char letters[] = "abtnvfr"; /* from 7 on */

	if (c >= 7 && c <= 13)
		buf_printf(b, "\\%c", letters[c - 7]);
	else if (c == '"' || c == '\\')
		buf_printf(b, "\\%c", c);
	else
		buf_printf(b, "\\%03o", c);
}

void path_quote(struct buf *b, const char *s, size_t n)
{
	if (is_plain(s, n)) {
		buf_add(b, s, n);
		return;
	}
	buf_add_char(b, '"');
	while (n > 0) {
		uint32_t cp;
		size_t len = utf8_decode(s, n, &cp);

		if (len > 0 && is_plain(s, len)) {
			buf_add(b, s, len);
		} else {
			len = len ? len : 1;
			for (size_t i = 0; i < len; i++)
				quote_byte(b, (unsigned char)s[i]);
		}
		s += len;
		n -= len;
	}
	buf_add_char(b, '"');
}

void text_cut(struct buf *b, const char *s, size_t max)
{
	size_t n = strlen(s);
	size_t used = 0;

	for (; max > 0 && used < n; max--) {
		uint32_t cp;
		size_t len = utf8_decode(s + used, n - used, &cp);

		used += len ? len : 1;
	}
	buf_add(b, s, used);
}

void text_escape(struct buf *b, const char *s, size_t n)
{
	while (n > 0) {
		size_t plain = utf8_plain_span(s, n), len = plain;
		uint32_t cp;

		if (!plain)
			len = utf8_decode(s, n, &cp);
		if (plain || (len > 0 && !utf8_is_hidden(cp))) {
			buf_add(b, s, len);
		} else {
			len = len ? len : 1;
			for (size_t i = 0; i < len; i++)
				buf_printf(b, "\\x%02x", (unsigned char)s[i]);
		}
		s += len;
		n -= len;
	}
}

void path_copy(char ret[PATH_MAX], const char *path)
{
	size_t len = strnlen(path, PATH_MAX - 1);

	memmove(ret, path, len);
	ret[len] = '\0';
}

int path_from_env(const char *name, const char **ret, struct error *err)
{
	const char *value = getenv(name);

	*ret = value && *value ? value : NULL;
	if (!*ret || value[0] == '/')
		return 0;
	(void)error_say(err, ERR_USAGE, EINVAL, "%s '%s' is a relative path",
			name, value);
	return error_hint(err, "set it to an absolute one");
}
