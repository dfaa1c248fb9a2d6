#include "base/utf8.h"

#include "base/cleanup.h"

static bool is_surrogate(uint32_t cp)
{
	return cp >= 0xd800 && cp <= 0xdfff;
}

size_t utf8_decode(const char *s, size_t n, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	uint32_t cp;
	size_t len;

	if (n == 0)
		return 0;
	if (p[0] < 0x80) {
		*ret = p[0];
		return 1;
	}
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (len > n)
		return 0;
	cp = p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	if (cp < least[len] || cp > 0x10ffff || is_surrogate(cp))
		return 0;
	*ret = cp;
	return len;
}

size_t utf8_plain_span(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && s[i] >= ' ' && s[i] < 0x7f)
		i++;
	return i;
}

bool utf8_is_valid(const char *s, size_t n)
{
	uint32_t cp;

	while (n > 0) {
		size_t len = utf8_plain_span(s, n);

		if (!len)
			len = utf8_decode(s, n, &cp);

		if (len == 0)
			return false;
		s += len;
		n -= len;
	}
	return true;
}

bool utf8_is_hidden(uint32_t cp)
{
	/* General categories Cc, Cf, Zl, Zp and default ignorables. */
	static const struct {
		uint32_t first, last;
	} hidden[] = {
		{ 0x0000, 0x001f },   { 0x007f, 0x009f },
		{ 0x00ad, 0x00ad },   { 0x034f, 0x034f },
		{ 0x0600, 0x0605 },   { 0x061c, 0x061c },
		{ 0x06dd, 0x06dd },   { 0x070f, 0x070f },
		{ 0x0890, 0x0891 },   { 0x08e2, 0x08e2 },
		{ 0x115f, 0x1160 },   { 0x17b4, 0x17b5 },
		{ 0x180b, 0x180f },   { 0x200b, 0x200f },
		{ 0x2028, 0x202e },   { 0x2060, 0x206f },
		{ 0x3164, 0x3164 },   { 0xfdd0, 0xfdef },
		{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },
		{ 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb },
		{ 0x110bd, 0x110bd }, { 0x110cd, 0x110cd },
		{ 0x13430, 0x1343f }, { 0x1bca0, 0x1bca3 },
		{ 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
	};

	if ((cp & 0xfffe) == 0xfffe)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
		if (cp >= hidden[i].first && cp <= hidden[i].last)
			return true;
	return false;
}
