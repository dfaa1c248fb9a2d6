/*
 * What cgo cannot do itself: functions of Go as callbacks of the library. A
 * handle is a runtime/cgo.Handle: an integer, never a pointer, to the checker
 * of either language.
 */
#ifndef BRIDGE_H
#define BRIDGE_H

#include <sandlock.h>
#include <stdint.h>
#include <stdlib.h>

void bridge_log(struct sandlock_env *env, uintptr_t handle);
int bridge_diff(const struct sandlock_env *env, const char *name,
		unsigned int want, const char *const *paths, size_t n_paths,
		uintptr_t handle, struct sandlock_error *err);
int bridge_uncovered(const struct sandlock_env *env, const char *name,
		     uintptr_t handle, struct sandlock_error *err);
int bridge_denials(const struct sandlock_env *env, const char *name,
		   uintptr_t handle, struct sandlock_error *err);
int bridge_explain(const struct sandlock_env *env, const char *name,
		   const char *word, uintptr_t handle,
		   struct sandlock_error *err);
int bridge_questions(const struct sandlock_env *env, const char *name,
		     uintptr_t handle, struct sandlock_error *err);
int bridge_watch_questions(const struct sandlock_env *env, const char *name,
			   uintptr_t handle, struct sandlock_error *err);
int bridge_commit(const struct sandlock_env *env, const char *name,
		  struct sandlock_commit *c, uintptr_t handle,
		  struct sandlock_error *err);
int bridge_sandbox_commit(struct sandlock_sandbox *s, struct sandlock_commit *c,
			  uintptr_t handle, struct sandlock_error *err);

/* @handle is forgotten once, by free of the sandbox or here. */
int bridge_set_policy(struct sandlock_sandbox *s, bool deferred,
		      uintptr_t handle, struct sandlock_error *err);
/* The same. @name NULL: @nr. */
int bridge_add_handler(struct sandlock_sandbox *s, const char *name, int nr,
		       enum sandlock_exception on_exception, uintptr_t handle,
		       struct sandlock_error *err);

#endif
