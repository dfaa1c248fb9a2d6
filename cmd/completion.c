#include "completion.h"

#include <string.h>

#include "spec/request.h"

const char completion_signals[] = "TERM KILL INT HUP QUIT USR1 USR2 STOP CONT";

/* clang-format off */
static const struct {
	const char *shell;
	void (*print)(FILE *f);
} shells[] = {
	{ "bash", completion_bash },
	{ "zsh", completion_zsh },
	{ "fish", completion_fish },
};
/* clang-format on */

void completion_words(FILE *f, const char *values, char between)
{
	for (const char *s = values; *s; s++)
		(void)fputc(*s == '|' ? between : *s, f);
}

/* The keys of profiles, by sections, in scdoc's syntax. */
static void print_profile_keys(void)
{
	const char *section = "";
	size_t len = 0;

	for (size_t i = 0; i < request_n_keys; i++) {
		const struct request_key *k = &request_keys[i];
		const char *dot = strchr(k->key, '.');

		if ((size_t)(dot - k->key) != len ||
		    strncmp(k->key, section, len) != 0) {
			section = k->key;
			len = (size_t)(dot - section);
			printf("## [%.*s]\n\n", (int)len, section);
		}
		printf("*%s* = _%s_", dot + 1, request_kind_form(k->kind));
		if (k->flag)
			printf(", *--%s*", k->flag);
		printf("\n\t%s\n\n", k->help);
	}
}

/*
 * For the man pages: --man VERB, --man sandlock for the global options, or
 * --man sandlock.toml for the keys of profiles.
 */
static int print_man(struct ctx *ctx, const char *name)
{
	struct sandlock_error err = { 0 };
	const struct verb *v = verb_find(name);

	if (strcmp(name, "sandlock.toml") == 0) {
		print_profile_keys();
		return cmd_flush(ctx);
	}
	if (!v && strcmp(name, "sandlock") != 0) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"unknown command '%s'", name);
		return cmd_fail(ctx, &err);
	}
	help_man_options(stdout, v);
	return cmd_flush(ctx);
}

int cmd_completion(struct ctx *ctx, struct args *args)
{
	const char *shell = args->operands[0], *man = args_str(args, "man");
	struct sandlock_error err = { 0 };

	if (man)
		return print_man(ctx, man);
	for (size_t i = 0; shell && i < ARRAY_LEN(shells); i++) {
		if (strcmp(shells[i].shell, shell) != 0)
			continue;
		shells[i].print(stdout);
		return cmd_flush(ctx);
	}
	if (shell)
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"no completion for '%s'", shell);
	else
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"missing operand for 'completion'");
	(void)cmd_hint(&err, "one of bash, zsh, fish");
	return cmd_fail(ctx, &err);
}
