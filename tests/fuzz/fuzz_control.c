/* What the server reads: any body is a request or a failure with a text. */
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "control/protocol.h"
#include "supervise/denials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_request q = { .fd = -1 };
	struct error err = ERROR_INIT;
	struct buf frame = BUF_INIT;
	struct denial_record record;
	struct json *answer = NULL;

	if (control_parse((const char *)data, size, &q, &err) < 0) {
		if (q.root || !err.msg[0] ||
		    control_answer(&frame, NULL, err.msg) < 0)
			abort();
		if (control_get_length((const unsigned char *)frame.data) !=
			    frame.len - CONTROL_HEADER ||
		    frame.len > CONTROL_HEADER + CONTROL_BODY_MAX)
			abort();
		/* What the server sends is what the client understands. */
		err = (struct error)ERROR_INIT;
		if (control_read_answer(frame.data + CONTROL_HEADER,
					frame.len - CONTROL_HEADER, &answer,
					&err) == 0 ||
		    err.kind != ERR_STATE)
			abort();
	} else if (!q.verb) {
		abort();
	}
	control_request_done(&q);
	json_free(answer);
	answer = NULL;
	if (control_read_event((const char *)data, size, &answer, NULL) == 0 &&
	    !json_str_or(answer, "event", NULL))
		abort();
	/* What a client makes of an event, or of what is in a log. */
	denial_from_json(json_get(answer, "data"), &record);
	if (!record.what.code || !record.what.call || record.what.error < 0)
		abort();
	json_free(answer);
	buf_done(&frame);
	return 0;
}
