/*
 * Where the answer to one question is left: memory that the supervisor shares
 * with the embedder, so that an answer that comes at once costs no message. The
 * supervisor waits in it for one question at a time:
 *
 *	supervisor	askslot_open -> (the question is sent) -> askslot_wait
 *	embedder	askslot_answer; false: it is to be sent as a message
 *
 * What the embedder has sent before an answer is to be received before that is
 * taken: askslot_count_sent, by whoever has sent something, and askslot_sent.
 *
 * The embedder can write anything at any time: it is who decides. So each word
 * is read once and looked at, and what it may say is an answer or nothing. The
 * memory is sealed and cannot be cut.
 */
#ifndef SANDLOCK_SANDBOX_ASKSLOT_H
#define SANDLOCK_SANDBOX_ASKSLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct askslot;

/* The supervisor's: a descriptor that the embedder is to be sent. Not passed
 * on to what is forked. 0 or a negative errno. */
int askslot_make(struct askslot **ret, int *ret_fd);
/* The embedder's; NULL if that cannot be had. @fd is borrowed. */
struct askslot *askslot_map(int fd);
/* Either one; NULL is fine. */
void askslot_free(struct askslot *s);

void askslot_open(struct askslot *s, uint64_t number);
/*
 * True with the answer, 0 or an errno, to the question it was opened for. False
 * if a signal came first: it is closed then, and answers are messages.
 */
bool askslot_wait(struct askslot *s, uint64_t number, int *ret_error);
/* False if it is not open for that question, or not any more. Thread-safe. */
bool askslot_answer(struct askslot *s, uint64_t number, int error);

/* Before something is sent, 1, and where that failed, -1. Thread-safe. */
void askslot_count_sent(struct askslot *s, int n);
/* At least so many, modulo 2^32. */
uint32_t askslot_sent(const struct askslot *s);

#endif
