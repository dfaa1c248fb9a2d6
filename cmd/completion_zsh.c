#include "completion.h"

#include <string.h>

static const char head[] =
	"#compdef sandlock sandlock-oci\n"
	"# zsh completion for sandlock: written by `sandlock completion zsh`.\n"
	"\n"
	"_sandlock_sandboxes()\n"
	"{\n"
	"\tlocal -a names expl\n"
	"\n"
	"\tnames=(${(f)\"$(_call_program sandboxes $_sandlock_command list "
	"-q)\"})\n"
	"\t_wanted sandboxes expl sandbox compadd -a names\n"
	"}\n"
	"\n"
	"_sandlock_branches()\n"
	"{\n"
	"\tlocal -a names expl\n"
	"\n"
	"\tnames=(${(f)\"$(_call_program branches $_sandlock_command branches "
	"-q)\"})\n"
	"\t_wanted branches expl branch compadd -a names\n"
	"}\n"
	"\n"
	"_sandlock_verbs()\n"
	"{\n"
	"\tlocal -a verbs\n"
	"\n"
	"\tverbs=(\n";

static const char middle[] = "\t)\n"
			     "\t_describe -t commands command verbs\n"
			     "}\n"
			     "\n"
			     "_sandlock()\n"
			     "{\n"
			     "\tlocal curcontext=$curcontext state line ret=1\n"
			     "\tlocal -A opt_args\n"
			     "\tlocal -a _sandlock_command\n"
			     "\n"
			     "\t_sandlock_command=($words[1])\n"
			     "\t_arguments -C -S -A '-*' \\\n";

static const char dispatch[] =
	"\t\t'1:command:_sandlock_verbs' \\\n"
	"\t\t'*:: :->operands' && ret=0\n"
	"\t[[ $state == operands ]] || return ret\n"
	"\t(($+opt_args[--root])) &&\n"
	"\t\t_sandlock_command+=(--root ${opt_args[--root]})\n"
	"\tcurcontext=${curcontext%:*:*}:sandlock-$words[1]:\n"
	"\tcase $words[1] in\n";

static const char tail[] = "\tesac\n"
			   "\treturn ret\n"
			   "}\n"
			   "\n"
			   "_sandlock \"$@\"\n";

/* In single quotes, inside [...] or before a colon. */
static void print_escaped(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '\'') {
			(void)fputs("'\\''", f);
			continue;
		}
		if (strchr("[]:\\", *s))
			(void)fputc('\\', f);
		(void)fputc(*s, f);
	}
}

static void print_action(FILE *f, const struct opt *o)
{
	if (o->kind == OPT_FLAG)
		return;
	(void)fputc(':', f);
	print_escaped(f, o->arg);
	(void)fputc(':', f);
	if (o->kind == OPT_ENUM) {
		(void)fputc('(', f);
		completion_words(f, o->values, ' ');
		(void)fputc(')', f);
	} else if (o->complete == COMPLETE_DIR) {
		(void)fputs("_files -/", f);
	} else if (o->complete == COMPLETE_FILE) {
		(void)fputs("_files", f);
	}
}

static void print_option(FILE *f, const struct opt *o, const char *indent)
{
	const char *star = o->kind == OPT_LIST ? "*" : "";
	bool takes_value = o->kind != OPT_FLAG;

	(void)fputs(indent, f);
	if (o->letter && o->kind == OPT_LIST)
		(void)fprintf(f, "'*'{-%c+,--%s=}'[", o->letter, o->name);
	else if (o->letter)
		(void)fprintf(f, "'(-%c --%s)'{-%c%s,--%s%s}'[", o->letter,
			      o->name, o->letter, takes_value ? "+" : "",
			      o->name, takes_value ? "=" : "");
	else
		(void)fprintf(f, "'%s--%s%s[", star, o->name,
			      takes_value ? "=" : "");
	print_escaped(f, o->help);
	(void)fputc(']', f);
	print_action(f, o);
	(void)fputs("' \\\n", f);
	if (o->alias) {
		(void)fprintf(f, "%s'%s--%s%s[", indent, star, o->alias,
			      takes_value ? "=" : "");
		print_escaped(f, o->help);
		(void)fputc(']', f);
		print_action(f, o);
		(void)fputs("' \\\n", f);
	}
	if (o->flags & OPT_NEGATABLE) {
		(void)fprintf(f, "%s'--no-%s[not\\: ", indent, o->name);
		print_escaped(f, o->help);
		(void)fputs("]' \\\n", f);
	}
}

static void print_options(FILE *f, enum verb_id id, const char *indent)
{
	for (size_t i = 0; i < opt_table_len; i++)
		if (opt_is_of(&opt_table[i], id) &&
		    !(opt_table[i].flags & OPT_HIDDEN))
			print_option(f, &opt_table[i], indent);
}

static const char *operand_specs(const struct verb *v)
{
	switch (v->complete) {
	case COMPLETE_SANDBOX:
		return "'1:sandbox:_sandlock_sandboxes'";
	case COMPLETE_SIGNAL:
		return "'1:sandbox:_sandlock_sandboxes' '2:signal:(@)'";
	case COMPLETE_BRANCH:
		return v->id == VERB_BRANCHES ? "'*:branch:_sandlock_branches'"
					      : "'1:branch:_sandlock_branches'";
	case COMPLETE_SHELL:
		return "'1:shell:(bash zsh fish)'";
	case COMPLETE_PROFILE:
		return "'1:action:(list show check)' '*:file:_files'";
	case COMPLETE_VERB:
		return "'1:command:_sandlock_verbs'";
	case COMPLETE_NONE:
	case COMPLETE_FILE:
	case COMPLETE_DIR:
		break;
	}
	return "'*: :'";
}

static void print_verb(FILE *f, const struct verb *v)
{
	(void)fprintf(f, "\t%s)\n\t\t_arguments -s -S %s\\\n", v->name,
		      v->flags & VERB_STOPS ? "-A '-*' " : "");
	print_options(f, v->id, "\t\t\t");
	(void)fputs("\t\t\t", f);
	for (const char *s = operand_specs(v); *s; s++) {
		if (*s == '@')
			(void)fputs(completion_signals, f);
		else
			(void)fputc(*s, f);
	}
	(void)fputs(" && ret=0 ;;\n", f);
}

void completion_zsh(FILE *f)
{
	(void)fputs(head, f);
	for (size_t i = 0; i < verb_table_len; i++) {
		(void)fprintf(f, "\t\t'%s:", verb_table[i].name);
		print_escaped(f, verb_table[i].summary);
		(void)fputs("'\n", f);
	}
	(void)fputs(middle, f);
	print_options(f, VERB_GLOBAL, "\t\t");
	(void)fputs(dispatch, f);
	for (size_t i = 0; i < verb_table_len; i++)
		print_verb(f, &verb_table[i]);
	(void)fputs(tail, f);
}
