#include "completion.h"

#include <string.h>

static const char head[] = "# fish completion for sandlock: written by "
			   "`sandlock completion fish`.\n"
			   "\n"
			   "# Options of a verb ('' for those before it) that "
			   "take the next word.\n"
			   "function __sandlock_takes_value\n"
			   "\tswitch \"$argv[1] $argv[2]\"\n";

static const char functions[] =
	"\t\t\treturn 0\n"
	"\tend\n"
	"\treturn 1\n"
	"end\n"
	"\n"
	"# The verb (or '') and the number of the operand at the cursor; "
	"fails\n"
	"# behind the first operand of verbs whose options end there.\n"
	"function __sandlock_where\n"
	"\tset -l words (commandline -opc)\n"
	"\tset -l verb ''\n"
	"\tset -l n 1\n"
	"\tset -e words[1]\n"
	"\twhile set -q words[1]\n"
	"\t\tswitch $words[1]\n"
	"\t\t\tcase '-*'\n"
	"\t\t\t\tif __sandlock_takes_value \"$verb\" $words[1]\n"
	"\t\t\t\t\tset -e words[1]\n"
	"\t\t\t\tend\n"
	"\t\t\tcase '*'\n"
	"\t\t\t\tif test -z \"$verb\"\n"
	"\t\t\t\t\tset verb $words[1]\n"
	"\t\t\t\telse\n"
	"\t\t\t\t\tset n (math $n + 1)\n"
	"\t\t\t\tend\n"
	"\t\tend\n"
	"\t\tset -q words[1]; and set -e words[1]\n"
	"\tend\n"
	"\techo $verb\n"
	"\techo $n\n"
	"end\n"
	"\n"
	"function __sandlock_no_verb\n"
	"\tset -l where (__sandlock_where)\n"
	"\ttest -z \"$where[1]\"\n"
	"end\n"
	"\n"
	"# __sandlock_options VERB: its options are possible here.\n"
	"function __sandlock_options\n"
	"\tset -l where (__sandlock_where)\n"
	"\ttest \"$where[1]\" = $argv[1]; or return 1\n"
	"\tcontains -- $argv[1] @STOPS@; or return 0\n"
	"\ttest $where[2] = 1\n"
	"end\n"
	"\n"
	"# __sandlock_operand VERB NUMBER: this operand is next; 0: any.\n"
	"function __sandlock_operand\n"
	"\tset -l where (__sandlock_where)\n"
	"\ttest \"$where[1]\" = $argv[1]; or return 1\n"
	"\ttest $argv[2] = 0; or test $where[2] = $argv[2]\n"
	"end\n"
	"\n"
	"# __sandlock_names VERB: with the --root of the command line.\n"
	"function __sandlock_names\n"
	"\tset -l words (commandline -opc)\n"
	"\tset -l root\n"
	"\tfor i in (seq (count $words))\n"
	"\t\tif string match -q -- '--root=*' $words[$i]\n"
	"\t\t\tset root $words[$i]\n"
	"\t\telse if test $words[$i] = --root; and set -q words[(math $i + "
	"1)]\n"
	"\t\t\tset root --root $words[(math $i + 1)]\n"
	"\t\tend\n"
	"\tend\n"
	"\t$words[1] $root $argv[1] -q 2>/dev/null\n"
	"end\n"
	"\n"
	"complete -c sandlock -f\n"
	"complete -c sandlock-oci -w sandlock\n";

static void print_quoted(FILE *f, const char *s)
{
	(void)fputc('\'', f);
	for (; *s; s++) {
		if (*s == '\'' || *s == '\\')
			(void)fputc('\\', f);
		(void)fputc(*s, f);
	}
	(void)fputc('\'', f);
}

static void print_takes_value(FILE *f, enum verb_id id, const char *name)
{
	for (size_t i = 0; i < opt_table_len; i++) {
		const struct opt *o = &opt_table[i];

		if (!opt_is_of(o, id) || o->kind == OPT_FLAG)
			continue;
		(void)fprintf(f, " '%s --%s'", name, o->name);
		if (o->alias)
			(void)fprintf(f, " '%s --%s'", name, o->alias);
		if (o->letter)
			(void)fprintf(f, " '%s -%c'", name, o->letter);
	}
}

static void print_functions(FILE *f)
{
	static const char mark[] = "@STOPS@";
	const char *at = strstr(functions, mark);

	(void)fprintf(f, "%.*s", (int)(at - functions), functions);
	for (size_t i = 0; i < verb_table_len; i++)
		if (verb_table[i].flags & VERB_STOPS)
			(void)fprintf(f, "%s ", verb_table[i].name);
	(void)fputs(at + strlen(mark), f);
}

static void print_option(FILE *f, const struct opt *o, const char *condition,
			 const char *verb)
{
	(void)fprintf(f, "complete -c sandlock -n '%s%s'", condition, verb);
	if (o->letter)
		(void)fprintf(f, " -s %c", o->letter);
	(void)fprintf(f, " -l %s", o->name);
	if (o->alias)
		(void)fprintf(f, " -l %s", o->alias);
	if (o->kind == OPT_ENUM) {
		(void)fputs(" -x -a '", f);
		completion_words(f, o->values, ' ');
		(void)fputc('\'', f);
	} else if (o->complete == COMPLETE_DIR) {
		(void)fputs(" -x -a '(__fish_complete_directories)'", f);
	} else if (o->complete == COMPLETE_FILE) {
		(void)fputs(" -r -F", f);
	} else if (o->kind != OPT_FLAG) {
		(void)fputs(" -x", f);
	}
	(void)fputs(" -d ", f);
	print_quoted(f, o->help);
	(void)fputc('\n', f);
	if (o->flags & OPT_NEGATABLE)
		(void)fprintf(f, "complete -c sandlock -n '%s%s' -l no-%s\n",
			      condition, verb, o->name);
}

static void print_options(FILE *f, enum verb_id id, const char *condition,
			  const char *verb)
{
	for (size_t i = 0; i < opt_table_len; i++)
		if (opt_is_of(&opt_table[i], id) &&
		    !(opt_table[i].flags & OPT_HIDDEN))
			print_option(f, &opt_table[i], condition, verb);
}

static void print_operand(FILE *f, const struct verb *v, int number,
			  const char *what)
{
	(void)fprintf(f,
		      "complete -c sandlock -n '__sandlock_operand %s %d' "
		      "-a '%s'\n",
		      v->name, number, what);
}

static void print_operands(FILE *f, const struct verb *v)
{
	static const char sandboxes[] = "(__sandlock_names list)";
	static const char branches[] = "(__sandlock_names branches)";

	switch (v->complete) {
	case COMPLETE_SANDBOX:
		print_operand(f, v, 1, sandboxes);
		break;
	case COMPLETE_SIGNAL:
		print_operand(f, v, 1, sandboxes);
		print_operand(f, v, 2, completion_signals);
		break;
	case COMPLETE_BRANCH:
		print_operand(f, v, v->id == VERB_BRANCHES ? 0 : 1, branches);
		break;
	case COMPLETE_SHELL:
		print_operand(f, v, 1, "bash zsh fish");
		break;
	case COMPLETE_PROFILE:
		print_operand(f, v, 1, "list show check");
		break;
	case COMPLETE_VERB:
		for (size_t i = 0; i < verb_table_len; i++)
			print_operand(f, v, 1, verb_table[i].name);
		break;
	case COMPLETE_NONE:
	case COMPLETE_FILE:
	case COMPLETE_DIR:
		break;
	}
}

void completion_fish(FILE *f)
{
	(void)fputs(head, f);
	(void)fputs("\t\tcase", f);
	print_takes_value(f, VERB_GLOBAL, "");
	for (size_t i = 0; i < verb_table_len; i++)
		print_takes_value(f, verb_table[i].id, verb_table[i].name);
	(void)fputc('\n', f);
	print_functions(f);
	print_options(f, VERB_GLOBAL, "__sandlock_no_verb", "");
	for (size_t i = 0; i < verb_table_len; i++) {
		const struct verb *v = &verb_table[i];

		(void)fprintf(
			f,
			"complete -c sandlock -n __sandlock_no_verb -a %s "
			"-d ",
			v->name);
		print_quoted(f, v->summary);
		(void)fputc('\n', f);
		print_options(f, v->id, "__sandlock_options ", v->name);
		print_operands(f, v);
	}
}
