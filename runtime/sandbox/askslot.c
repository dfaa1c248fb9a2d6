#include "sandbox/askslot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

/*
 * The word: the number, what it is, and the error of an answer; 0 at first. A
 * thread sleeps on its lower half, which has what changes.
 */
enum { ERROR_BITS = 12, STATE_BITS = 2 };
enum state { CLOSED, OPEN, SLEPT_ON, ANSWERED };

#define ERROR_MASK ((UINT64_C(1) << ERROR_BITS) - 1)

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	      "the lower half comes first");

struct askslot {
	_Atomic uint64_t word;
	_Atomic uint32_t sent;
};

static uint64_t word_of(uint64_t number, enum state state, int error)
{
	return number << (ERROR_BITS + STATE_BITS) |
	       (uint64_t)state << ERROR_BITS | (uint64_t)error;
}

static int futex(struct askslot *s, int op, uint32_t value)
{
	return syscall(SYS_futex, &s->word, op, value, NULL, NULL, 0) < 0
		       ? -errno
		       : 0;
}

static struct askslot *map(int fd)
{
	void *p = mmap(NULL, sizeof(struct askslot), PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

int askslot_make(struct askslot **ret, int *ret_fd)
{
	auto_close int fd =
		memfd_create("answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct askslot *s;

	if (fd < 0 || ftruncate(fd, sizeof(*s)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
		    0)
		return -errno;
	s = map(fd);
	if (!s)
		return -errno;
	(void)madvise(s, sizeof(*s), MADV_DONTFORK);
	*ret = s;
	*ret_fd = take_fd(&fd);
	return 0;
}

struct askslot *askslot_map(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 ||
	    st.st_size < (off_t)sizeof(struct askslot))
		return NULL;
	return map(fd);
}

void askslot_free(struct askslot *s)
{
	if (s)
		(void)munmap(s, sizeof(*s));
}

void askslot_open(struct askslot *s, uint64_t number)
{
	atomic_store(&s->word, word_of(number, OPEN, 0));
}

static bool change(struct askslot *s, uint64_t *seen, uint64_t to)
{
	return atomic_compare_exchange_strong(&s->word, seen, to);
}

/* Nobody is woken who does not sleep, so that is said first. */
bool askslot_wait(struct askslot *s, uint64_t number, int *ret_error)
{
	const uint64_t open = word_of(number, OPEN, 0);
	const uint64_t slept_on = word_of(number, SLEPT_ON, 0);
	uint64_t seen = open;
	bool go_on = true;

	if (change(s, &seen, slept_on))
		seen = slept_on;
	while (seen == slept_on) {
		if (!go_on && change(s, &seen, word_of(number, CLOSED, 0)))
			return false;
		if (!go_on)
			break;
		go_on = futex(s, FUTEX_WAIT, (uint32_t)slept_on) != -EINTR;
		seen = atomic_load(&s->word);
	}
	if ((seen & ~ERROR_MASK) != word_of(number, ANSWERED, 0))
		return false;
	/* Taken once. */
	atomic_store(&s->word, word_of(number, CLOSED, 0));
	*ret_error = (int)(seen & ERROR_MASK);
	return true;
}

bool askslot_answer(struct askslot *s, uint64_t number, int error)
{
	const uint64_t answer = word_of(number, ANSWERED, error);
	uint64_t seen = word_of(number, OPEN, 0);

	if (change(s, &seen, answer))
		return true;
	if (seen != word_of(number, SLEPT_ON, 0) || !change(s, &seen, answer))
		return false;
	(void)futex(s, FUTEX_WAKE, INT_MAX);
	return true;
}

void askslot_count_sent(struct askslot *s, int n)
{
	(void)atomic_fetch_add(&s->sent, (uint32_t)n);
}

uint32_t askslot_sent(const struct askslot *s)
{
	return atomic_load(&s->sent);
}
