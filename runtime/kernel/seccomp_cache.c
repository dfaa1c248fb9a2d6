#include "kernel/seccomp_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "kernel/seccomp.h"
#include "kernel/userns.h"
#include "spec/spec.h"

enum {
	FORMAT_VERSION = 3,
	ENTRIES_MAX = 128, /* above, the cache is emptied and starts again */
};

/* The files are read only by the machine that wrote them: no byte order. */
struct header {
	char magic[8];
	uint32_t version;
	uint32_t key_len;
	uint32_t n_insns;
	uint32_t unused;
	uint64_t checksum;
};

static const char magic[8] = { 's', 'l', 's', 'e', 'c', 'b', 'p', 'f' };

typedef char name_buf[33];

static void add_u32(struct buf *b, uint32_t v)
{
	buf_add(b, &v, sizeof(v));
}

static void add_u64(struct buf *b, uint64_t v)
{
	buf_add(b, &v, sizeof(v));
}

/* A count and then terminated strings: no two lists have the same bytes. */
static void add_strings(struct buf *b, const struct spec_strings *l)
{
	add_u32(b, (uint32_t)l->n);
	for (size_t i = 0; i < l->n; i++)
		buf_add(b, l->v[i], strlen(l->v[i]) + 1);
}

void seccomp_cache_key(const struct spec_seccomp *s, struct buf *key)
{
	add_u32(key, FORMAT_VERSION);
	add_u32(key,
		SCMP_VER_MAJOR << 16 | SCMP_VER_MINOR << 8 | SCMP_VER_MICRO);
	add_u32(key, seccomp_arch_native());
	add_u32(key, s->default_action);
	add_u32(key, s->has_default_errno);
	add_u32(key, s->default_errno);
	add_strings(key, &s->architectures);
	add_strings(key, &s->flags);
	add_u32(key, (uint32_t)s->n_rules);
	for (size_t i = 0; i < s->n_rules; i++) {
		const struct spec_seccomp_rule *r = &s->rules[i];

		add_u32(key, r->action);
		add_u32(key, r->has_errno);
		add_u32(key, r->errno_ret);
		add_strings(key, &r->names);
		add_u32(key, (uint32_t)r->n_args);
		for (size_t j = 0; j < r->n_args; j++) {
			add_u32(key, r->args[j].index);
			add_u32(key, (uint32_t)r->args[j].op);
			add_u64(key, r->args[j].value);
			add_u64(key, r->args[j].value_two);
		}
	}
}

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/* FNV-1a by words. */
static uint64_t add_word(uint64_t sum, uint64_t word)
{
	return (sum ^ word) * UINT64_C(0x100000001b3);
}

static uint64_t add_words(uint64_t sum, const void *data, size_t n)
{
	const char *p = data;
	uint64_t word;

	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum = add_word(sum, word);
	}
	word = 0;
	memcpy(&word, p, n);
	return n ? add_word(sum, word) : sum;
}

/* An instruction is a word. */
static uint64_t checksum(const struct header *h, const void *insns)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	sum = add_word(sum, h->key_len);
	sum = add_word(sum, h->n_insns);
	return add_words(sum, insns, h->n_insns * sizeof(struct sock_filter));
}

static int open_dir(const char *dir)
{
	auto_close int fd =
		open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return -EPERM;
	return take_fd(&fd);
}

/* Reads a whole file of @size bytes at most; NULL if it is none of ours. */
static unsigned char *read_entry(int dirfd, const char *name, size_t max,
				 size_t *ret_len)
{
	auto_close int fd = openat(
		dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	auto_free unsigned char *data = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022))
		return NULL;
	if (st.st_size < (off_t)sizeof(struct header) ||
	    (uintmax_t)st.st_size > max)
		return NULL;
	data = malloc((size_t)st.st_size);
	if (!data)
		return NULL;
	if (fd_read_full(fd, data, (size_t)st.st_size) != st.st_size)
		return NULL;
	*ret_len = (size_t)st.st_size;
	return take_ptr(&data);
}

/* The program in @data, or NULL if it is damaged or another key's. */
static const void *check_entry(const unsigned char *data, size_t len,
			       const struct buf *key, size_t *ret_n)
{
	const unsigned char *insns;
	struct header h;

	memcpy(&h, data, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)) != 0 ||
	    h.version != FORMAT_VERSION || h.key_len != key->len ||
	    h.n_insns == 0 || h.n_insns > BPF_MAXINSNS)
		return NULL;
	if (len != sizeof(h) + padded(h.key_len) +
			   h.n_insns * sizeof(struct sock_filter))
		return NULL;
	if (memcmp(data + sizeof(h), key->data, key->len) != 0)
		return NULL;
	insns = data + sizeof(h) + padded(h.key_len);
	if (checksum(&h, insns) != h.checksum)
		return NULL;
	*ret_n = h.n_insns;
	return insns;
}

/* Two keys of one name would push each other out: the key is in the file. */
static void name_of_key(const struct buf *key, name_buf name)
{
	uint64_t a =
		add_words(UINT64_C(0xcbf29ce484222325), key->data, key->len);
	uint64_t b = add_words(a ^ key->len, key->data, key->len);

	(void)snprintf(name, sizeof(name_buf), "%016" PRIx64 "%016" PRIx64, a,
		       b);
}

bool seccomp_cache_get(const char *dir, const struct buf *key,
		       const struct log_sink *log, void **ret_insns,
		       size_t *ret_n)
{
	auto_close int dirfd = open_dir(dir);
	auto_free unsigned char *data = NULL;
	const void *insns;
	name_buf name;
	size_t len, n;
	void *copy;

	if (dirfd < 0) {
		if (dirfd != -ENOENT)
			log_debug(log, "seccomp cache '%s' is not used: %s",
				  dir, strerror(-dirfd));
		return false;
	}
	name_of_key(key, name);
	data = read_entry(dirfd, name,
			  sizeof(struct header) + padded(key->len) +
				  BPF_MAXINSNS * sizeof(struct sock_filter),
			  &len);
	if (!data)
		return false;
	insns = check_entry(data, len, key, &n);
	if (!insns) {
		log_debug(log, "seccomp cache entry '%s/%s' is damaged", dir,
			  name);
		return false;
	}
	copy = malloc(n * sizeof(struct sock_filter));
	if (!copy)
		return false;
	memcpy(copy, insns, n * sizeof(struct sock_filter));
	*ret_insns = copy;
	*ret_n = n;
	return true;
}

/* mkdir -p with mode 0700 for what is missing. */
static int make_dirs(const char *dir)
{
	auto_free char *path = strdup(dir);

	if (!path)
		return -ENOMEM;
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

/* Old profiles must not pile up: what is in use will be made again. */
static void limit_entries(int dirfd)
{
	auto_close int fd =
		openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;
	size_t n = 0;

	if (!d)
		return;
	(void)take_fd(&fd);
	while (readdir(d))
		n++;
	if (n < ENTRIES_MAX)
		return;
	rewinddir(d);
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)unlinkat(dirfd, e->d_name, 0);
	}
}

static int put_entry(const char *dir, const struct buf *key, const void *insns,
		     size_t n)
{
	static const char zero[8];
	struct header h = { .version = FORMAT_VERSION,
			    .key_len = (uint32_t)key->len,
			    .n_insns = (uint32_t)n };
	auto_(buf) struct buf b = BUF_INIT;
	auto_close int dirfd = open_dir(dir);
	name_buf name;

	if (dirfd == -ENOENT) {
		int r = make_dirs(dir);

		if (r < 0)
			return r;
		dirfd = open_dir(dir);
	}
	if (dirfd < 0)
		return dirfd;
	memcpy(h.magic, magic, sizeof(magic));
	h.checksum = checksum(&h, insns);
	buf_add(&b, &h, sizeof(h));
	buf_add(&b, key->data, key->len);
	buf_add(&b, zero, padded(key->len) - key->len);
	buf_add(&b, insns, n * sizeof(struct sock_filter));
	if (buf_failed(&b))
		return -ENOMEM;
	limit_entries(dirfd);
	name_of_key(key, name);
	return fd_write_atomic(dirfd, name, b.data, b.len, 0600, false);
}

void seccomp_cache_put(const char *dir, const struct buf *key,
		       const void *insns, size_t n, const struct log_sink *log)
{
	int r = put_entry(dir, key, insns, n);

	if (r < 0)
		log_debug(log, "seccomp cache '%s' is not written: %s", dir,
			  strerror(-r));
}

static int dir_below(const char *base, const char *sub, char **ret)
{
	char *path = path_join(base, sub);

	if (!path)
		return -ENOMEM;
	*ret = path;
	return 0;
}

int seccomp_cache_dir(char **ret)
{
	const char *env = getenv("SANDLOCK_CACHE");
	const char *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (env && strcmp(env, "none") == 0) {
		*ret = NULL;
		return 0;
	}
	if (env && env[0] == '/')
		return dir_below(env, "seccomp", ret);
	if (geteuid() == 0 && userns_initial_uid() == 0)
		return dir_below("/var/cache/sandlock", "seccomp", ret);
	if (xdg && xdg[0] == '/')
		return dir_below(xdg, "sandlock/seccomp", ret);
	if (home && home[0] == '/')
		return dir_below(home, ".cache/sandlock/seccomp", ret);
	*ret = NULL;
	return 0;
}
