/*
 * The library never prints. What is worth telling but is no error (a warning,
 * a debug line) goes to the sink of the caller, which is passed along in the
 * structures that need it. Thread rule: the sink is called on the thread that
 * logs.
 */
#ifndef SANDLOCK_BASE_LOG_H
#define SANDLOCK_BASE_LOG_H

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG
};

struct log_sink {
	void (*write)(void *data, enum log_level level, const char *msg);
	void *data;
};

/* Formats and hands over one line; @sink may be NULL: then nothing happens. */
void log_write(const struct log_sink *sink, enum log_level level,
	       const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define log_warn(sink, ...) log_write(sink, LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_debug(sink, ...) log_write(sink, LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
