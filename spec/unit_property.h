/*
 * The annotations "org.systemd.property.NAME": properties of the unit that
 * systemd makes for a sandbox. The values are in GVariant's text format:
 *
 *	true, 7, uint64 7, 0.5, 'text', "text", ['a', 'b'], @as [], @t 7
 *
 * Containers but arrays are not taken, nor arrays of arrays. NAME may end in
 * "Sec", as in unit files: a number of seconds, given to systemd as "USec".
 * Pure; thread-safe.
 */
#ifndef SANDLOCK_SPEC_UNIT_PROPERTY_H
#define SANDLOCK_SPEC_UNIT_PROPERTY_H

#include "base/buf.h"

struct error;

#define SPEC_UNIT_PROPERTY "org.systemd.property."

enum { UNIT_PROPERTY_MAX = 64 * 1024 };

/*
 * Appends the name, the D-Bus signature and the value as words that each have
 * a NUL, as busctl(1) takes them. ERR_BUNDLE for what is none of the above.
 */
int unit_property_parse(const char *name, const char *text, struct buf *words,
			struct error *err);

#endif
