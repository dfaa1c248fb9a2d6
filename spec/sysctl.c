/*
 * linux.sysctl: only what a namespace of the container has for itself. The key
 * is parsed once, checked as a path and kept as that path; nothing reads it
 * again as text with separators (CVE-2022-0811).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "spec/parse.h"

/* clang-format off */
static const struct {
	const char *path; /* a '/' at the end: everything below */
	enum spec_ns ns;
} allowed[] = {
	{ "net/",		       SPEC_NS_NETWORK },
	{ "fs/mqueue/",		       SPEC_NS_IPC },
	{ "kernel/auto_msgmni",	       SPEC_NS_IPC },
	{ "kernel/msg_next_id",	       SPEC_NS_IPC },
	{ "kernel/msgmax",	       SPEC_NS_IPC },
	{ "kernel/msgmnb",	       SPEC_NS_IPC },
	{ "kernel/msgmni",	       SPEC_NS_IPC },
	{ "kernel/sem",		       SPEC_NS_IPC },
	{ "kernel/sem_next_id",	       SPEC_NS_IPC },
	{ "kernel/shm_next_id",	       SPEC_NS_IPC },
	{ "kernel/shm_rmid_forced",    SPEC_NS_IPC },
	{ "kernel/shmall",	       SPEC_NS_IPC },
	{ "kernel/shmmax",	       SPEC_NS_IPC },
	{ "kernel/shmmni",	       SPEC_NS_IPC },
	{ "kernel/domainname",	       SPEC_NS_UTS },
	{ "kernel/hostname",	       SPEC_NS_UTS },
};
/* clang-format on */

/*
 * sysctl.d(5): if the first separator is a slash the dots are part of names
 * ("net/ipv4/conf/eth0.1/x"), else both change places
 * ("net.ipv4.conf.eth0/1.x").
 */
static void normalise(char *key)
{
	if (key[strcspn(key, "./")] != '.')
		return;
	for (; *key; key++) {
		if (*key == '.')
			*key = '/';
		else if (*key == '/')
			*key = '.';
	}
}

/* No component may be empty, "." or "..". */
static bool is_plain_path(const char *s)
{
	for (;;) {
		size_t n = strcspn(s, "/");

		if (n == 0 || (n == 1 && s[0] == '.') ||
		    (n == 2 && s[0] == '.' && s[1] == '.'))
			return false;
		if (s[n] == '\0')
			return true;
		s += n + 1;
	}
}

static bool matches(const char *path, const char *rule)
{
	size_t n = strlen(rule);

	if (rule[n - 1] == '/')
		return strncmp(path, rule, n) == 0;
	return strcmp(path, rule) == 0;
}

static int check_key(const struct at *at, const struct spec *s,
		     const char *path, const char *value)
{
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
		if (!matches(path, allowed[i].path))
			continue;
		if (!ns_is_private(s, allowed[i].ns))
			return at_fail(at, "needs a private %s namespace",
				       spec_ns_table[allowed[i].ns].oci_name);
		if (strcmp(path, "kernel/hostname") == 0)
			return at_fail(at, "conflicts with the property "
					   "'hostname': use that");
		if (strcmp(path, "kernel/domainname") == 0 && s->domainname &&
		    strcmp(value, s->domainname) != 0)
			return at_fail(at, "conflicts with the property "
					   "'domainname'");
		return 0;
	}
	return at_fail(at, "is not in a separate kernel namespace");
}

static int by_key(const void *a, const void *b)
{
	const struct spec_pair *x = a, *y = b;

	return strcmp(x->key, y->key);
}

int check_sysctls(const struct at *at, struct spec *s)
{
	struct at linux_at = { .p = at->p, .up = at, .key = "linux" };
	struct at map = { .p = at->p, .up = &linux_at, .key = "sysctl" };

	for (size_t i = 0; i < s->n_sysctls; i++) {
		struct spec_pair *p = &s->sysctls[i];
		auto_free char *given = strdup(p->key);
		struct at item = { .p = at->p, .up = &map, .key = given };
		int r;

		if (!given)
			return at_no_memory(at);
		normalise(p->key);
		if (!is_plain_path(p->key))
			return at_fail(&item, "is no valid name");
		r = check_key(&item, s, p->key, p->value);
		if (r < 0)
			return r;
	}
	if (s->n_sysctls > 1)
		qsort(s->sysctls, s->n_sysctls, sizeof(*s->sysctls), by_key);
	for (size_t i = 1; i < s->n_sysctls; i++)
		if (strcmp(s->sysctls[i - 1].key, s->sysctls[i].key) == 0)
			return at_fail(&map, "'%s' is given twice",
				       SHOWN(s->sysctls[i].key));
	return 0;
}
