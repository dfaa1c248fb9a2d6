#include "supervise/words.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "supervise/handler.h"

enum { PAGE = 4096, POINTERS = 64, RANGES_STEP = 64 };

void ranges_done(struct ranges *r)
{
	free(r->v);
	*r = (struct ranges){ .n = 0 };
}

int ranges_add(struct ranges *r, uint64_t addr, uint64_t len)
{
	struct range *v = r->v;

	if (r->n > 3 * WORDS_MAX)
		return -E2BIG;
	if (r->n % RANGES_STEP == 0)
		v = realloc(v, (r->n + RANGES_STEP) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	r->v = v;
	v[r->n++] = (struct range){ addr, len };
	return 0;
}

static int read_word(struct call *c, uint64_t addr, struct buf *words,
		     struct ranges *places, size_t *used)
{
	size_t room = WORDS_MAX_BYTES - *used, size = 256, len;
	int r = -ENAMETOOLONG;
	auto_free char *text = NULL;

	while (r == -ENAMETOOLONG && size / 2 < room) {
		free(text);
		text = malloc(size);
		if (!text)
			return -ENOMEM;
		r = call_read_string(c, addr, text, size);
		size *= 8;
	}
	if (r < 0)
		return r == -ENAMETOOLONG ? -E2BIG : r;
	len = strlen(text) + 1;
	*used += len;
	if (*used > WORDS_MAX_BYTES)
		return -E2BIG;
	if (words)
		buf_add(words, text, len);
	return places ? ranges_add(places, addr, len) : 0;
}

/* As many pointers as lie on one page. */
static size_t count_on_page(uint64_t addr)
{
	size_t n = (PAGE - (size_t)(addr % PAGE)) / sizeof(uint64_t);

	return n == 0 ? 1 : (n < POINTERS ? n : POINTERS);
}

int words_read(struct call *c, uint64_t addr, struct buf *words,
	       struct ranges *places)
{
	uint64_t p[POINTERS], at = addr;
	size_t used = 0;
	int r = 0;

	while (r == 0 && addr) {
		size_t n = count_on_page(at);

		if ((at - addr) / sizeof(*p) > WORDS_MAX)
			return -E2BIG;
		r = call_read(c, at, p, n * sizeof(*p));
		if (r == 0 && places)
			r = ranges_add(places, at, n * sizeof(*p));
		for (size_t i = 0; r == 0 && i < n; i++) {
			if (!p[i])
				return words && buf_failed(words) ? -ENOMEM : 0;
			r = read_word(c, p[i], words, places, &used);
		}
		at += n * sizeof(*p);
	}
	return r;
}

static bool touches(const struct ranges *r, uint64_t begin, uint64_t end)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].addr < end && r->v[i].addr + r->v[i].len > begin)
			return true;
	return false;
}

/* What the kernel writes to without any task of the sandbox running. */
static bool is_asynchronous(const char *name)
{
	return strncmp(name, "/[aio]", 6) == 0 ||
	       strstr(name, "anon_inode:[io_uring]");
}

static int check_mapping(const char *line, const struct ranges *places)
{
	uint64_t begin, end;
	char perms[5] = "";
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &begin,
		   &end, perms, &at) < 3)
		return -EPROTO;
	if (at && is_asynchronous(line + at))
		return -EPERM;
	return perms[1] == 'w' && perms[3] == 's' && touches(places, begin, end)
		       ? -EPERM
		       : 0;
}

int words_are_private(struct call *c, const struct ranges *places)
{
	char path[40];
	auto_free char *line = NULL;
	auto_file FILE *f = NULL;
	size_t size = 0;
	int r = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)call_tid(c));
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (r == 0 && getline(&line, &size, f) > 0)
		r = check_mapping(line, places);
	return r;
}
