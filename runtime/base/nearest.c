#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

enum { WORD_MAX = 63 };

/* Edits (insert, delete, replace, swap neighbours) that make a into b. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int rows[3][WORD_MAX + 1];
	size_t n = strlen(a), m = strlen(b);
	unsigned int *prev2 = rows[0], *prev = rows[1], *row = rows[2];

	if (n > WORD_MAX || m > WORD_MAX)
		return UINT32_MAX;
	for (size_t j = 0; j <= m; j++)
		prev[j] = j;
	for (size_t i = 1; i <= n; i++) {
		unsigned int *spare = prev2;

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			unsigned int best =
				prev[j - 1] + (a[i - 1] != b[j - 1]);

			if (prev[j] + 1 < best)
				best = prev[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] && prev2[j - 2] + 1 < best)
				best = prev2[j - 2] + 1;
			row[j] = best;
		}
		prev2 = prev;
		prev = row;
		row = spare;
	}
	return prev[m];
}

const char *nearest_word(const char *word,
			 const char *(*nth)(const void *, size_t),
			 const void *v, size_t n)
{
	size_t len = strlen(word);
	unsigned int best = len < 4 ? 2 : len < 8 ? 3 : 4;
	const char *found = NULL;

	for (size_t i = 0; i < n; i++) {
		const char *w = nth(v, i);
		unsigned int d;

		if (!w)
			continue;
		/* A beginning is nearer than any misspelling. */
		d = len > 1 && !strncmp(word, w, len) ? 0 : distance(word, w);
		if (d < best) {
			best = d;
			found = w;
		}
	}
	return found;
}
