#include "completion.h"

#include <string.h>

static const char head[] =
	"# bash completion for sandlock: written by `sandlock completion "
	"bash`.\n"
	"# Needs no bash-completion package.\n"
	"\n"
	"# _sandlock_options VERB: its options; no VERB: those before it.\n"
	"_sandlock_options()\n"
	"{\n"
	"\tcase $1 in\n";

static const char middle[] = "\tesac\n"
			     "}\n"
			     "\n"
			     "# _sandlock_value VERB,OPTION: how its value is "
			     "completed, nothing for a\n"
			     "# flag.\n"
			     "_sandlock_value()\n"
			     "{\n"
			     "\tcase $1 in\n";

static const char operands[] =
	"\tesac\n"
	"}\n"
	"\n"
	"# _sandlock_operand VERB NUMBER: how an operand is completed.\n"
	"_sandlock_operand()\n"
	"{\n"
	"\tcase $1,$2 in\n";

static const char tail[] =
	"\tesac\n"
	"}\n"
	"\n"
	"_sandlock_offer()\n"
	"{\n"
	"\tlocal cur=$1 kind=$2\n"
	"\n"
	"\tcase $kind in\n"
	"\tdir)\n"
	"\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
	"\tfile)\n"
	"\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
	"\tsandbox)\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"$(\"${command[@]}\" list -q "
	"\\\n"
	"\t\t\t2>/dev/null)\" -- \"$cur\") ;;\n"
	"\tbranch)\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"$(\"${command[@]}\" \\\n"
	"\t\t\tbranches -q 2>/dev/null)\" -- \"$cur\") ;;\n"
	"\twords\\ *)\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"${kind#words }\" -- "
	"\"$cur\") ;;\n"
	"\tesac\n"
	"}\n"
	"\n"
	"_sandlock()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} verb='' option='' word kind i "
	"n=1\n"
	"\tlocal command=(\"${COMP_WORDS[0]}\") only_operands=''\n"
	"\n"
	"\tCOMPREPLY=()\n"
	"\t# Where the cursor is: in the value of $option, or the n-th "
	"operand.\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\tif [[ $option ]]; then\n"
	"\t\t\t# --option=value is three words to bash.\n"
	"\t\t\t[[ $word == '=' ]] && continue\n"
	"\t\t\t[[ $option == --root ]] && command+=(--root \"$word\")\n"
	"\t\t\toption=\n"
	"\t\telif [[ $only_operands ]]; then\n"
	"\t\t\t((n++))\n"
	"\t\telif [[ $word == -- ]]; then\n"
	"\t\t\tonly_operands=yes\n"
	"\t\telif [[ $word == -* ]]; then\n"
	"\t\t\t[[ $(_sandlock_value \"$verb,$word\") ]] && option=$word\n"
	"\t\telif [[ ! $verb ]]; then\n"
	"\t\t\tverb=$word\n"
	"\t\telse\n"
	"\t\t\t((n++))\n"
	"\t\t\tcase $verb in @STOPS@) only_operands=yes ;; esac\n"
	"\t\tfi\n"
	"\tdone\n"
	"\t[[ $option && $cur == '=' ]] && cur=\n"
	"\tif [[ $option ]]; then\n"
	"\t\tkind=$(_sandlock_value \"$verb,$option\")\n"
	"\telif [[ $cur == -* && ! $only_operands ]]; then\n"
	"\t\tkind=\"words $(_sandlock_options \"$verb\")\"\n"
	"\telse\n"
	"\t\tkind=$(_sandlock_operand \"$verb\" \"$n\")\n"
	"\tfi\n"
	"\t_sandlock_offer \"$cur\" \"$kind\"\n"
	"}\n"
	"\n"
	"complete -F _sandlock sandlock sandlock-oci\n";

static void print_options(FILE *f, enum verb_id id, const char *name)
{
	(void)fprintf(f, "\t'%s') echo '", name);
	for (size_t i = 0; i < opt_table_len; i++) {
		const struct opt *o = &opt_table[i];

		if (!opt_is_of(o, id) || (o->flags & OPT_HIDDEN))
			continue;
		(void)fprintf(f, "--%s ", o->name);
		if (o->alias)
			(void)fprintf(f, "--%s ", o->alias);
		if (o->flags & OPT_NEGATABLE)
			(void)fprintf(f, "--no-%s ", o->name);
		if (o->letter)
			(void)fprintf(f, "-%c ", o->letter);
	}
	(void)fputs("' ;;\n", f);
}

static void print_value(FILE *f, enum verb_id id, const char *name)
{
	for (size_t i = 0; i < opt_table_len; i++) {
		const struct opt *o = &opt_table[i];

		if (!opt_is_of(o, id) || o->kind == OPT_FLAG)
			continue;
		(void)fprintf(f, "\t%s,--%s", name, o->name);
		if (o->alias)
			(void)fprintf(f, " | %s,--%s", name, o->alias);
		if (o->letter)
			(void)fprintf(f, " | %s,-%c", name, o->letter);
		(void)fputs(") echo '", f);
		if (o->kind == OPT_ENUM) {
			(void)fputs("words ", f);
			completion_words(f, o->values, ' ');
		} else if (o->complete == COMPLETE_DIR) {
			(void)fputs("dir", f);
		} else if (o->complete == COMPLETE_FILE) {
			(void)fputs("file", f);
		} else {
			(void)fputs("any", f);
		}
		(void)fputs("' ;;\n", f);
	}
}

static void print_verb_names(FILE *f)
{
	for (size_t i = 0; i < verb_table_len; i++)
		(void)fprintf(f, " %s", verb_table[i].name);
}

static void print_operand(FILE *f, const struct verb *v)
{
	/* branches takes any number of names. */
	const char *which = v->id == VERB_BRANCHES ? "*" : "1";

	switch (v->complete) {
	case COMPLETE_SIGNAL:
		(void)fprintf(f, "\t%s,2) echo 'words %s' ;;\n", v->name,
			      completion_signals);
		(void)fprintf(f, "\t%s,1) echo sandbox ;;\n", v->name);
		break;
	case COMPLETE_SANDBOX:
		(void)fprintf(f, "\t%s,1) echo sandbox ;;\n", v->name);
		break;
	case COMPLETE_BRANCH:
		(void)fprintf(f, "\t%s,%s) echo branch ;;\n", v->name, which);
		break;
	case COMPLETE_SHELL:
		(void)fprintf(f, "\t%s,1) echo 'words bash zsh fish' ;;\n",
			      v->name);
		break;
	case COMPLETE_PROFILE:
		(void)fprintf(f, "\t%s,1) echo 'words list show check' ;;\n",
			      v->name);
		break;
	case COMPLETE_VERB:
		(void)fprintf(f, "\t%s,1) echo 'words", v->name);
		print_verb_names(f);
		(void)fputs("' ;;\n", f);
		break;
	case COMPLETE_NONE:
	case COMPLETE_FILE:
	case COMPLETE_DIR:
		break;
	}
}

static void print_tail(FILE *f)
{
	static const char mark[] = "@STOPS@";
	const char *at = strstr(tail, mark);
	const char *between = "";

	(void)fprintf(f, "%.*s", (int)(at - tail), tail);
	for (size_t i = 0; i < verb_table_len; i++) {
		if (!(verb_table[i].flags & VERB_STOPS))
			continue;
		(void)fprintf(f, "%s%s", between, verb_table[i].name);
		between = " | ";
	}
	(void)fputs(at + strlen(mark), f);
}

void completion_bash(FILE *f)
{
	(void)fputs(head, f);
	print_options(f, VERB_GLOBAL, "");
	for (size_t i = 0; i < verb_table_len; i++)
		print_options(f, verb_table[i].id, verb_table[i].name);
	(void)fputs(middle, f);
	print_value(f, VERB_GLOBAL, "");
	for (size_t i = 0; i < verb_table_len; i++)
		print_value(f, verb_table[i].id, verb_table[i].name);
	(void)fputs(operands, f);
	(void)fputs("\t,*) echo 'words", f);
	print_verb_names(f);
	(void)fputs("' ;;\n", f);
	for (size_t i = 0; i < verb_table_len; i++)
		print_operand(f, &verb_table[i]);
	print_tail(f);
}
