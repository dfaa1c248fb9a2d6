#include "supervise/denied_paths.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/path.h"

enum { STEP = 16 };

struct denied_paths {
	pthread_mutex_t lock;
	char **v;
	size_t n;
	bool all; /* one could not be noted */
};

struct denied_paths *denied_paths_new(void)
{
	struct denied_paths *d = calloc(1, sizeof(*d));

	if (d && pthread_mutex_init(&d->lock, NULL)) {
		free(d);
		return NULL;
	}
	return d;
}

void denied_paths_free(struct denied_paths *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i]);
	(void)pthread_mutex_destroy(&d->lock);
	free(d->v);
	free(d);
}

/* With the lock held; d->n: not there. */
static size_t find(const struct denied_paths *d, const char *path)
{
	size_t i = 0;

	while (i < d->n && strcmp(d->v[i], path) != 0)
		i++;
	return i;
}

/* Takes @path. With the lock held. */
static int append(struct denied_paths *d, char **path)
{
	char **v = d->v;

	if (find(d, *path) < d->n)
		return 0;
	if (d->n == DENIED_PATHS_MAX)
		return -ENOSPC;
	if (d->n % STEP == 0)
		v = reallocarray(v, d->n + STEP, sizeof(*v));
	if (!v)
		return -ENOMEM;
	d->v = v;
	v[d->n++] = take_ptr(path);
	return 0;
}

int denied_paths_add(struct denied_paths *d, const char *path)
{
	auto_free char *whole = *path == '/' ? path_normalize(path) : NULL;
	int r;

	if (*path != '/')
		return -EINVAL;
	(void)pthread_mutex_lock(&d->lock);
	r = whole ? append(d, &whole) : -ENOMEM;
	d->all |= r < 0;
	(void)pthread_mutex_unlock(&d->lock);
	return r;
}

void denied_paths_remove(struct denied_paths *d, const char *path)
{
	auto_free char *whole = path_normalize(path);
	size_t i;

	if (!whole)
		return;
	(void)pthread_mutex_lock(&d->lock);
	i = find(d, whole);
	if (i < d->n) {
		free(d->v[i]);
		d->v[i] = d->v[--d->n];
	}
	(void)pthread_mutex_unlock(&d->lock);
}

bool denied_paths_has(struct denied_paths *d, const char *path,
		      const char *real)
{
	bool found;

	if (!d)
		return false;
	(void)pthread_mutex_lock(&d->lock);
	found = d->all;
	for (size_t i = 0; i < d->n && !found; i++)
		found = path_is_under(path, d->v[i]) ||
			(real && path_is_under(real, d->v[i]));
	(void)pthread_mutex_unlock(&d->lock);
	return found;
}

bool denied_paths_any(struct denied_paths *d)
{
	bool any;

	if (!d)
		return false;
	(void)pthread_mutex_lock(&d->lock);
	any = d->n > 0 || d->all;
	(void)pthread_mutex_unlock(&d->lock);
	return any;
}

void denied_paths_json(struct denied_paths *d, struct json_out *o)
{
	(void)pthread_mutex_lock(&d->lock);
	json_out_array(o);
	for (size_t i = 0; i < d->n; i++)
		json_out_bytes(o, d->v[i], strlen(d->v[i]));
	json_out_array_end(o);
	(void)pthread_mutex_unlock(&d->lock);
}
