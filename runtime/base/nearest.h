/* What somebody who misspelled a word may have meant. */
#ifndef SANDLOCK_BASE_NEAREST_H
#define SANDLOCK_BASE_NEAREST_H

#include <stddef.h>

/* The word of @n that is nearest to @word, or NULL if none is near;
 * @nth may give NULL. */
const char *nearest_word(const char *word,
			 const char *(*nth)(const void *, size_t),
			 const void *v, size_t n);

#endif
