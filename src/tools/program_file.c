/* SPDX-License-Identifier: BSD-3-Clause */
/* program_file.c -- finds the file that a program name runs, also behind launchers, and its
 * privileges */
#include "tools/program_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/text.h"

/* ---- search ---- */

static bool program_is_runnable(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISREG(status.st_mode) && !access(path, X_OK);
}

bool program_find(const char *name, char path[PATH_MAX])
{
	const char *folders = getenv("PATH");

	if (strchr(name, '/')) {
		snprintf(path, PATH_MAX, "%s", name);
		return program_is_runnable(path);
	}
	while (folders && *folders) {
		size_t length = strcspn(folders, ":");

		snprintf(path, PATH_MAX, "%.*s/%s", length ? (int)length : 1,
			 length ? folders : ".", name);
		if (program_is_runnable(path))
			return true;
		folders += length + (folders[length] != '\0');
	}
	snprintf(path, PATH_MAX, "%s", name);
	return false;
}

/* ---- scripts ---- */

bool script_line(const char *path, char *line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t length = fd < 0 ? -1 : read(fd, line, size - 1);

	if (fd >= 0)
		close(fd);
	if (length < 2 || line[0] != '#' || line[1] != '!')
		return false;
	line[length] = '\0';
	memmove(line, line + 2, (size_t)length - 1);
	line[strcspn(line, "\n")] = '\0';
	return true;
}

static char *script_next_word(char **line)
{
	char *word = *line + strspn(*line, " \t");

	*line = word + strcspn(word, " \t");
	if (**line)
		*(*line)++ = '\0';
	return word;
}

/* Return the program of an env command line: the first word after options and variables. */
static const char *script_env_program(char *line)
{
	char *word;

	do {
		word = script_next_word(&line);
		/* -u and -C take a separate argument. */
		if (!strcmp(word, "-u") || !strcmp(word, "-C"))
			script_next_word(&line);
	} while (*word && (*word == '-' || strchr(word, '=')));
	return word;
}

bool script_follow(const char *line, char path[PATH_MAX])
{
	char copy[512], *rest = copy, *word;
	const char *base;

	snprintf(copy, sizeof(copy), "%s", line);
	word = script_next_word(&rest);
	base = strrchr(word, '/');
	if (!strcmp(base ? base + 1 : word, "env"))
		return program_find(script_env_program(rest), path);
	snprintf(path, PATH_MAX, "%s", word);
	return program_is_runnable(path);
}

/* ---- launchers ---- */

const char *launcher_kind(const char *name)
{
	static const struct {
		const char *kind, *names; /* each name between blanks */
	} launchers[] = {
		{ "container", " apptainer singularity docker podman nerdctl enroot shifter ch-run "
			       "sarus pcocc " },
		{ "mpi",
		  " mpirun mpiexec mpiexec.hydra mpirun.openmpi mpiexec.openmpi mpirun.mpich "
		  "mpiexec.mpich mpiexec_mpt mpirun_rsh orterun prterun prun torchrun " },
		{ "job",
		  " srun sbatch jsrun lrun aprun ibrun ccc_mprun poe flux env numactl taskset nice "
		  "ionice chrt nohup setsid time timeout " },
	};
	const char *base = text_file_name(name);
	char word[NAME_MAX + 3];

	snprintf(word, sizeof(word), " %s ", base);
	for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers); i++) {
		if (!strchr(base, ' ') && strstr(launchers[i].names, word))
			return launchers[i].kind;
	}
	return NULL;
}

int launcher_argument(const char *word, char path[PATH_MAX])
{
	const char *kind;

	if (*word == '-' || !program_find(word, path))
		return 0;
	kind = launcher_kind(word);
	return !kind ? 1 : strcmp(kind, "container") ? 0 : -1;
}

/* ---- privileges ---- */

bool program_privileges(const char *path, struct program_privileges *privileges)
{
	struct statvfs system;
	struct stat status;

	*privileges = (struct program_privileges){ 0 };
	if (stat(path, &status))
		return false;
	privileges->owner = status.st_uid;
	privileges->group = status.st_gid;
	if (!statvfs(path, &system) && (system.f_flag & ST_NOSUID))
		return true;
	privileges->setuid = status.st_mode & S_ISUID;
	privileges->setgid = (status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
	privileges->capability = getxattr(path, "security.capability", NULL, 0) > 0;
	return true;
}
