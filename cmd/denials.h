/* Refusals as text and JSON: what `logs`, `why` and the end of a run print. */
#ifndef SANDLOCK_CMD_DENIALS_H
#define SANDLOCK_CMD_DENIALS_H

#include "cmd.h"

/* "node may not read '/etc/shadow' [fs.read_file] x3" */
void denial_headline(struct buf *b, const struct sandlock_denial *d);
/* "builtin:keys (...), dev.toml:3:9" */
void denial_because(struct buf *b, const struct sandlock_denial *d);
/* "sandlock run --net-allow 192.0.2.1:443", or why nothing does */
void denial_remedy(struct buf *b, const struct sandlock_denial *d);
void denial_json(struct json_out *o, const struct sandlock_denial *d);

/* A copy that lasts, of the one that was refused last. */
struct last_denial {
	size_t n;	   /* how many there were */
	uint64_t n_killed; /* processes, for want of memory */
	struct timespec last;
	char *headline, *because, *remedy;
};
void last_denial_done(struct last_denial *l);
/* A sandlock_denial_fn whose data is a struct last_denial. */
int last_denial_take(void *data, const struct sandlock_denial *d);

#endif
