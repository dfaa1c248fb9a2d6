/*
 * Names of users, by /etc/passwd alone: name services would load shared
 * objects into a program that is linked statically, and cost its start more
 * than the rest of it.
 */
#ifndef SANDLOCK_BASE_USER_H
#define SANDLOCK_BASE_USER_H

#include <sys/types.h>

/* To be freed; NULL if there is none, or no memory. */
char *user_name(uid_t uid);

#endif
