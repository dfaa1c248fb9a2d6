/* Freeing by the tables that also read. */
#include "spec/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static void *place(const struct field *f, void *obj)
{
	return (char *)obj + f->offset;
}

static size_t *count_place(const struct field *f, void *obj)
{
	return (size_t *)((char *)obj + f->count);
}

int spec_strings_add(struct spec_strings *s, const char *text)
{
	char **v = realloc(s->v, (s->n + 2) * sizeof(*v));

	if (!v)
		return -ENOMEM;
	s->v = v;
	v[s->n] = strdup(text);
	if (!v[s->n])
		return -ENOMEM;
	v[++s->n] = NULL;
	return 0;
}

int spec_strings_split(struct spec_strings *s, const char *text)
{
	auto_free char *copy = strdup(text);
	char *save = NULL;
	int r = copy ? 0 : -ENOMEM;

	for (char *p = r ? NULL : strtok_r(copy, ",", &save); p && r == 0;
	     p = strtok_r(NULL, ",", &save))
		r = spec_strings_add(s, p);
	return r;
}

int spec_strings_add_all(struct spec_strings *s,
			 const struct spec_strings *from)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < from->n; i++)
		r = spec_strings_add(s, from->v[i]);
	return r;
}

void spec_strings_done(struct spec_strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (struct spec_strings){ 0 };
}

static void done_elements(const struct field *f, void *obj)
{
	char *elem = *(char **)place(f, obj);
	size_t *n = count_place(f, obj);

	for (size_t i = 0; i < *n; i++) {
		char *e = elem + i * f->shape->size;

		if (f->kind == FIELD_MAP)
			free(*(char **)e);
		shape_done(f->shape, e);
	}
	free(elem);
	*(void **)place(f, obj) = NULL;
	*n = 0;
}

static void done_pointer(const struct field *f, void *obj)
{
	void **p = place(f, obj);

	if (f->kind == FIELD_NEW && *p)
		shape_done(f->shape, *p);
	if (f->kind == FIELD_IDS)
		*count_place(f, obj) = 0;
	free(*p);
	*p = NULL;
}

static void done_field(const struct field *f, void *obj)
{
	switch (f->kind) {
	case FIELD_STR:
	case FIELD_IDS:
	case FIELD_NEW:
		done_pointer(f, obj);
		break;
	case FIELD_STRS:
		spec_strings_done(place(f, obj));
		break;
	case FIELD_OBJ:
		shape_done(f->shape, place(f, obj));
		break;
	case FIELD_ARRAY:
	case FIELD_MAP:
		done_elements(f, obj);
		break;
	case FIELD_BOOL:
	case FIELD_INT:
	case FIELD_UINT:
	case FIELD_ENUM:
	case FIELD_FLAGS:
	case FIELD_CALL:
		break;
	}
}

void shape_done(const struct shape *s, void *obj)
{
	for (size_t i = 0; i < s->n; i++)
		done_field(&s->fields[i], obj);
	if (s->done)
		s->done(obj);
}
