/* The sandbox's helper: root of a confined process tree, or PID 1 of a sandbox container.
 *
 * It reads frames on descriptor 0 and answers on descriptor 1 (one socket, or two pipes). A frame is a
 * big-endian 32-bit length, then that many bytes: a type letter and NUL-terminated strings.
 *
 *   P  plan: keys, each with a fixed number of values (table `KEYS`); sent once, answered by R or E
 *   X  command: timeout in ms, output cap, folder, text       -> D or E
 *   T  probe: pairs (act, argument), tried in a child under the same confinement -> D or E
 *   R  ready: level taken, then for each level that failed its name and the reason
 *   D  done: fixed fields (`reply`), stdout, stderr           E  error: text
 *
 * What holds the commands (the plan says which paths and which filter; this file only carries it out):
 *   - another uid where the helper is root, no capability, no_new_privs, rlimits
 *   - a Landlock domain of their own, below the helper's: they can signal nothing outside it
 *   - a seccomp filter, built and tested on the Python side, put over helper and commands alike
 *   - level `root`: own mount, pid, network and ipc namespaces with a root folder that holds the plan's
 *     mounts alone; level `net`: an own network; level `bare`: neither; level `init`: what a container engine
 *     gave already, with the first process of this program as PID 1
 * What keeps the helper beyond a command's reach: non-dumpable, its channel close-on-exec, exit status
 * from wait alone, and output in length-prefixed fields, so that nothing printed can look like a frame.
 * After each command every process it left is killed. When the channel closes, all end.
 *
 * Build: cc -O2 -static -o helper helper.c. helper.py speaks the same where there is no compiler.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_CAP = 8 << 20, LIST_CAP = 1024, TICK_MS = 100, MAX_OUTPUT = 16 << 20 };
enum { LEVEL_BARE, LEVEL_NET, LEVEL_INIT, LEVEL_ROOT }; /* the last two have a pid namespace for themselves */
enum { KILLED_NOT, KILLED_MEMORY, KILLED_PIDS, KILLED_DISK };

struct triple { const char *a, *b, *c; };
static struct {
    const char *root, *at, *stage, *tmp; /* writable root; its place in a new root; folder to build that on; TMPDIR */
    unsigned uid, gid;
    unsigned long memory, pids, reserve, growth;  /* bytes, count, bytes, bytes; 0 = not watched */
    struct triple mounts[LIST_CAP], rules[LIST_CAP], limits[16], filters[8];
    const char *levels[8], *env[LIST_CAP], *argv[32];
    int n_mounts, n_rules, n_limits, n_filters, n_levels, n_env, n_argv;
} plan;

static int level, own_network, ruleset = -1, devnull = -1, disks[2] = {-1, -1};
static struct sock_fprog filter;
static pid_t helper_pid;
static char why[512];  /* the step that failed, in words */

static int fail(const char *step) {
    snprintf(why, sizeof why, "%s: %s", step, strerror(errno));
    return -1;
}

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- frames ---- */

static int read_all(void *to, size_t size) {
    char *at = to;
    while (size) {
        ssize_t n = read(0, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        at += n, size -= (size_t)n;
    }
    return 0;
}

static void write_all(const void *from, size_t size) {
    const char *at = from;
    while (size) {
        ssize_t n = write(1, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(0); /* nobody listens: the broker is dead, so the sandbox is */
        at += n, size -= (size_t)n;
    }
}

static void send_frame(char type, const char *text, size_t size) {
    uint32_t length = htobe32((uint32_t)size + 1);
    write_all(&length, 4);
    write_all(&type, 1);
    write_all(text, size);
}

/* Reads a frame; its body is NUL-terminated one byte past the end. Returns the body's size or -1 at the end. */
static long read_frame(char **body) {
    uint32_t length;
    if (read_all(&length, 4)) return -1;
    length = be32toh(length);
    if (length < 1 || length > FRAME_CAP) return -1;
    if (!(*body = malloc(length + 1))) return -1;
    if (read_all(*body, length)) return -1;
    (*body)[length] = 0;
    return length;
}

/* Next string of a body, or NULL when it is used up. */
static const char *take(const char **at, const char *end) {
    if (*at >= end) return NULL;
    const char *text = *at;
    *at += strlen(text) + 1;
    return text;
}

/* ---- plan ---- */

#define PUSH(list, count, value) do { if ((count) >= (int)(sizeof(list) / sizeof *(list)) - 1) return -1; \
    (list)[(count)++] = (value); } while (0)

static int parse_plan(const char *at, const char *end) {
    const char *key, *a, *b, *c;
    while ((key = take(&at, end))) {
        if (!(a = take(&at, end))) return -1;
        if (!strcmp(key, "root")) plan.root = a;
        else if (!strcmp(key, "at")) plan.at = a;
        else if (!strcmp(key, "stage")) plan.stage = a;
        else if (!strcmp(key, "tmp")) plan.tmp = a;
        else if (!strcmp(key, "uid")) plan.uid = (unsigned)strtoul(a, NULL, 10);
        else if (!strcmp(key, "gid")) plan.gid = (unsigned)strtoul(a, NULL, 10);
        else if (!strcmp(key, "memory")) plan.memory = strtoul(a, NULL, 10);
        else if (!strcmp(key, "pids")) plan.pids = strtoul(a, NULL, 10);
        else if (!strcmp(key, "reserve")) plan.reserve = strtoul(a, NULL, 10);
        else if (!strcmp(key, "growth")) plan.growth = strtoul(a, NULL, 10);
        else if (!strcmp(key, "level")) PUSH(plan.levels, plan.n_levels, a);
        else if (!strcmp(key, "env")) PUSH(plan.env, plan.n_env, a);
        else if (!strcmp(key, "arg")) PUSH(plan.argv, plan.n_argv, a);
        else {
            if (!(b = take(&at, end))) return -1;
            if (!strcmp(key, "filter")) PUSH(plan.filters, plan.n_filters, ((struct triple){a, b, 0}));
            else if (!strcmp(key, "limit")) PUSH(plan.limits, plan.n_limits, ((struct triple){a, b, 0}));
            else {
                if (!(c = take(&at, end))) return -1;
                if (!strcmp(key, "rule")) PUSH(plan.rules, plan.n_rules, ((struct triple){a, b, c}));
                else if (!strcmp(key, "mount")) PUSH(plan.mounts, plan.n_mounts, ((struct triple){a, b, c}));
                else return -1;
            }
        }
    }
    return plan.root && plan.at && plan.stage && plan.tmp && plan.uid && plan.gid && plan.n_levels && plan.n_argv > 0 && plan.n_argv < 28
        ? 0 : -1;
}

static int load_filter(const char *name) {
    for (int i = 0; i < plan.n_filters; i++) {
        if (strcmp(plan.filters[i].a, name)) continue;
        const char *hex = plan.filters[i].b;
        size_t size = strlen(hex) / 2;
        unsigned char *code = malloc(size + 1);
        if (!code || !size || size % 8) break;
        for (size_t n = 0; n < size; n++) {
            unsigned value;
            if (sscanf(hex + 2 * n, "%2x", &value) != 1) return fail("seccomp filter of the plan");
            code[n] = (unsigned char)value;
        }
        filter.len = (unsigned short)(size / 8);
        filter.filter = (struct sock_filter *)code;
        return 0;
    }
    errno = EINVAL;
    return fail("seccomp filter of the plan");
}

/* ---- Landlock ---- */

static int make_ruleset(void) {
    long abi = syscall(444, NULL, 0, 1);
    if (abi < 1) return errno = ENOSYS, fail("Landlock");
    int last = abi < 2 ? 12 : abi < 3 ? 13 : abi < 5 ? 14 : 15;
    uint64_t handled = (1ull << (last + 1)) - 1;
    uint64_t attr[3] = {handled, 0, 3};
    ruleset = (int)syscall(444, attr, abi >= 6 ? 24 : abi >= 4 ? 16 : 8, 0);
    if (ruleset < 0) return fail("create Landlock ruleset");
    for (int i = 0; i < plan.n_rules; i++) {
        struct triple *rule = &plan.rules[i];
        if (!strcmp(rule->a, "root") && level != LEVEL_ROOT) continue;
        int fd = open(rule->c, O_PATH | O_CLOEXEC);
        if (fd < 0) continue; /* absent: granting nothing is the safe side */
        struct stat about;
        struct { uint64_t rights; int32_t fd; } __attribute__((packed)) beneath;
        beneath.rights = strtoull(rule->b, NULL, 16) & handled;
        beneath.fd = fd;
        if (fstat(fd, &about) == 0 && !S_ISDIR(about.st_mode)) beneath.rights &= 0xC007;
        if (beneath.rights && syscall(445, ruleset, 1, &beneath, 0)) return fail("Landlock rule");
        close(fd);
    }
    return 0;
}

/* ---- namespaces ---- */

static int write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n = write(fd, text, strlen(text));
    close(fd);
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int map_user(void) {
    char line[64];
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* the maps belong to root while hidden; no command exists yet */
    int bad = write_file("/proc/self/setgroups", "deny");
    snprintf(line, sizeof line, "%u %u 1", plan.gid, plan.gid);
    bad |= write_file("/proc/self/gid_map", line);
    snprintf(line, sizeof line, "%u %u 1", plan.uid, plan.uid);
    bad |= write_file("/proc/self/uid_map", line);
    if (bad) fail("map the user");
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return bad ? -1 : 0;
}

static int loopback_up(void) {
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request)) return fail("bring up loopback");
    close(fd);
    return 0;
}

static int make_parents(char *path) {
    for (char *at = path + strlen(plan.stage) + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        int bad = mkdir(path, 0755) && errno != EEXIST;
        *at = '/';
        if (bad) return -1;
    }
    return 0;
}

static int protect(const char *target, uint64_t flags) {
    uint64_t attr[4] = {flags, 0, 0, 0};
    return (int)syscall(442, AT_FDCWD, target, 0x8000 /* AT_RECURSIVE */, attr, sizeof attr);
}

static int mount_one(const char *kind, const char *source, const char *inside) {
    char target[4096 + 256];
    struct stat about;
    if ((size_t)snprintf(target, sizeof target, "%s%s", plan.stage, inside) >= sizeof target) return -1;
    if (make_parents(target)) return -1;
    if (!strcmp(kind, "link")) return symlink(source, target) && errno != EEXIST ? -1 : 0;
    if (!strcmp(kind, "dir")) return mkdir(target, 0755) && errno != EEXIST ? -1 : 0;
    int bind = !strcmp(kind, "ro") || !strcmp(kind, "rw") || !strcmp(kind, "dev");
    if (bind && stat(source, &about)) return 0; /* absent: not shown */
    if (bind && !S_ISDIR(about.st_mode) && access(target, F_OK) == 0) {
        /* over a file of a mount that is there already */
    } else if (bind && !S_ISDIR(about.st_mode)) {
        int fd = open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0) return -1;
        close(fd);
    } else if (mkdir(target, 0755) && errno != EEXIST) return -1;
    if (bind) {
        if (mount(source, target, NULL, MS_BIND | MS_REC, NULL)) return -1;
        if (!strcmp(kind, "dev")) return protect(target, 2); /* nosuid */
        return protect(target, !strcmp(kind, "ro") ? 1 | 2 : 2 | 4); /* rdonly, nosuid / nosuid, nodev */
    }
    if (!strcmp(kind, "proc")) return mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (!strcmp(kind, "tmpfs")) return mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, source);
    if (!strcmp(kind, "devpts")) return mount("devpts", target, "devpts", MS_NOSUID | MS_NOEXEC, source);
    errno = EINVAL;
    return -1;
}

static int new_root(void) {
    char step[300];
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return fail("make mounts private");
    if (mount("tmpfs", plan.stage, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")) return fail("mount new root");
    for (int i = 0; i < plan.n_mounts; i++) {
        struct triple *m = &plan.mounts[i];
        if (mount_one(m->a, m->b, m->c)) {
            snprintf(step, sizeof step, "mount %.20s on %.200s", m->a, m->c);
            return fail(step);
        }
    }
    if (chdir(plan.stage)) return fail("enter new root");
    if (syscall(SYS_pivot_root, ".", ".")) return fail("pivot root"); /* the old root lies on top of the new */
    if (umount2(".", MNT_DETACH)) return fail("leave old root");
    if (chdir("/")) return fail("enter new root");
    uint64_t attr[4] = {1, 0, 0, 0};
    if (syscall(442, AT_FDCWD, "/", 0, attr, sizeof attr)) return fail("make root read-only");
    plan.root = plan.at;
    return 0;
}

static int set_capabilities(uint32_t mask) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{mask, mask, 0}, {0, 0, 0}};
    return (int)syscall(SYS_capset, &header, data);
}

static int set_up(void) {
    int root = geteuid() == 0;
    if ((level == LEVEL_ROOT || level == LEVEL_NET) && !root && map_user()) return -1;
    if (own_network && loopback_up()) return -1;
    if (level == LEVEL_ROOT && new_root()) return -1;
    for (int i = 0; i < 2; i++) /* opened now: later the uid that owns nothing may not get there */
        if ((disks[i] = open(i ? plan.tmp : plan.root, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
            return fail("open the writable folders");
    if ((devnull = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0) return fail("open /dev/null");
    if (make_ruleset() && level != LEVEL_INIT) return -1; /* in a container it is depth: an engine may refuse it */
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int cap = 0; cap < 64; cap++)
        if (!(root && (cap == CAP_SETUID || cap == CAP_SETGID || cap == CAP_KILL))) prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    uint32_t keep = root ? 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL : 0;
    if (set_capabilities(keep)) return fail("drop capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return fail("no new privileges");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) return fail("become subreaper");
    /* Last, and once: commands inherit it. Installing costs a run over all call numbers. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0)) return fail("seccomp");
    return 0;
}

/* ---- processes ---- */

typedef void visit(pid_t pid, void *state);

/* Calls `seen` for every descendant of `pid`. The kernel lists children per thread. */
static void descend(pid_t pid, visit *seen, void *state, int depth) {
    char path[96], list[4096];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = depth < 256 ? opendir(path) : NULL;
    if (!tasks) return;
    for (struct dirent *task; (task = readdir(tasks));) {
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", pid, task->d_name);
        FILE *file = fopen(path, "re");
        if (!file) continue;
        while (fscanf(file, "%20s", list) == 1) {
            pid_t child = (pid_t)atoi(list);
            seen(child, state);
            descend(child, seen, state, depth + 1);
        }
        fclose(file);
    }
    closedir(tasks);
}

struct tally { unsigned long processes, bytes; int signal; };

static void measure(pid_t pid, void *state) {
    struct tally *tally = state;
    char path[64];
    unsigned long size, resident, shared;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "re");
    tally->processes++;
    if (!file) return;
    if (fscanf(file, "%lu %lu %lu", &size, &resident, &shared) == 3)
        tally->bytes += (resident - shared) * 4096ul; /* shared pages would count once per process */
    fclose(file);
}

static void strike(pid_t pid, void *state) {
    struct tally *tally = state;
    if (kill(pid, tally->signal) == 0) tally->processes++;
}

/* Kills whatever is left below the helper and reaps it; returns how many processes were still alive. */
static unsigned sweep(void) {
    unsigned killed = 0;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {} /* ended by themselves: not survivors */
    if (pid < 0) return 0;                                /* no child at all, so no descendant */
    int64_t give_up = now_us() + 5000000;
    for (;;) {
        if (level >= LEVEL_INIT) kill(-1, SIGKILL); /* everything in this pid namespace but us, atomically */
        else {
            /* Stopping first: a bomb at its process limit gets no free slot to fork into. */
            struct tally stop = {0, 0, SIGSTOP};
            for (unsigned long before = 1, round = 0; stop.processes != before && round < 20; round++) {
                before = stop.processes;
                stop.processes = 0;
                descend(helper_pid, strike, &stop, 0);
            }
            struct tally end = {0, 0, SIGKILL};
            descend(helper_pid, strike, &end, 0);
        }
        for (int spins = 0; spins < 200; spins++) {
            while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) killed++;
            if (pid < 0) return killed;
            usleep(200);
        }
        if (now_us() > give_up) return killed; /* stuck in the kernel: it stays ours and is tried again */
    }
}

/* ---- output ---- */

struct capture { int fd; char *head, *tail; size_t cap_head, cap_tail, n_head, at; uint64_t n_tail; };

static int capture_open(struct capture *c, size_t cap, int *writer) {
    int ends[2];
    memset(c, 0, sizeof *c);
    /* Made as the command's user: opening /dev/stderr anew asks for the pipe's owner. */
    setfsgid(plan.gid), setfsuid(plan.uid);
    int bad = pipe2(ends, O_CLOEXEC);
    setfsuid(geteuid()), setfsgid(getegid());
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* a change of uid resets it to a system-wide setting */
    if (bad) return c->fd = -1, fail("pipe");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_SETPIPE_SZ, 1 << 18);
    c->fd = ends[0], *writer = ends[1];
    c->cap_head = cap / 2, c->cap_tail = cap - cap / 2;
    c->head = malloc(c->cap_head + 1), c->tail = malloc(c->cap_tail + 1);
    return c->head && c->tail ? 0 : fail("memory for output");
}

static void capture_put(struct capture *c, const char *data, size_t size) {
    size_t n = c->cap_head - c->n_head < size ? c->cap_head - c->n_head : size;
    memcpy(c->head + c->n_head, data, n);
    c->n_head += n, data += n, size -= n;
    c->n_tail += size;
    if (size > c->cap_tail) data += size - c->cap_tail, size = c->cap_tail;
    while (size) {
        n = c->cap_tail - c->at < size ? c->cap_tail - c->at : size;
        memcpy(c->tail + c->at, data, n);
        c->at = (c->at + n) % c->cap_tail, data += n, size -= n;
    }
}

/* Reads what is there, at most `rounds` buffers; closes at the end of the stream. */
static void capture_read(struct capture *c, int rounds) {
    static char buffer[1 << 16];
    while (c->fd >= 0 && rounds-- > 0) {
        ssize_t n = read(c->fd, buffer, sizeof buffer);
        if (n > 0) capture_put(c, buffer, (size_t)n);
        else if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        else close(c->fd), c->fd = -1;
    }
}

static void capture_close(struct capture *c) {
    if (c->fd >= 0) close(c->fd);
    free(c->head), free(c->tail);
    memset(c, 0, sizeof *c), c->fd = -1;
}

/* ---- probe: acts that must fail, tried under a command's confinement ---- */

static int try_connect(int family, struct sockaddr *address, socklen_t size, int type) {
    int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    int code = 0;
    if (type == SOCK_DGRAM) code = sendto(fd, "x", 1, 0, address, size) == 1 ? 0 : errno;
    else if (connect(fd, address, size)) {
        code = errno;
        struct pollfd wait = {fd, POLLOUT, 0};
        socklen_t length = sizeof code;
        if (code == EINPROGRESS && poll(&wait, 1, 200) == 1) getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length);
        else if (code == EINPROGRESS) code = ETIMEDOUT;
    }
    close(fd);
    return code;
}

static int try_loopback(int family) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    socklen_t size = family == AF_INET ? sizeof four : sizeof six;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, address, size) || listen(fd, 1) || getsockname(fd, address, &size)) return errno;
    return try_connect(family, address, size, SOCK_STREAM);
}

/* `DEV:INODE:PATH`: what lies at the path, if it is that very file. In a root folder of its own a command may
 * see another one of the same name. */
static int try_open(const char *argument, int flags) {
    char *end, byte;
    struct stat about;
    uint64_t device = strtoull(argument, &end, 10), inode = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
    if (*end != ':') return EINVAL;
    int fd = open(end + 1, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return errno;
    int code = (flags & O_ACCMODE) == O_RDONLY && read(fd, &byte, 1) < 0 && errno != EISDIR ? errno : 0;
    if (!code && inode && (fstat(fd, &about) || about.st_dev != device || about.st_ino != inode)) code = ENOENT;
    close(fd);
    return code;
}

/* Leaves the file: whether it arrived is looked up from outside. */
static int try_create(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    close(fd);
    return 0;
}

static int try_process(const char *act, pid_t pid) {
    char path[64];
    if (pid <= 0 || pid == getpid()) return ESRCH; /* in a pid namespace the number may be our own */
    if (!strcmp(act, "signal")) return kill(pid, 0) ? errno : 0;
    if (!strcmp(act, "trace")) return ptrace(PTRACE_SEIZE, pid, 0, 0) ? errno : 0;
    snprintf(path, sizeof path, "0:0:/proc/%d/%.10s", pid, act);
    return try_open(path, O_RDONLY);
}

static int try_act(const char *act, const char *argument) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    size_t length = strlen(argument);
    four.sin_port = htons((uint16_t)atoi(argument));
    if (length > sizeof local.sun_path - 2) length = sizeof local.sun_path - 2;
    if (!strcmp(act, "read")) return try_open(argument, O_RDONLY);
    if (!strcmp(act, "write")) return try_open(argument, O_WRONLY | O_APPEND);
    if (!strcmp(act, "create")) return try_create(argument);
    if (!strcmp(act, "tcp")) return try_connect(AF_INET, (struct sockaddr *)&four, sizeof four, SOCK_STREAM);
    if (!strcmp(act, "udp")) return try_connect(AF_INET, (struct sockaddr *)&four, sizeof four, SOCK_DGRAM);
    if (!strcmp(act, "unix")) {
        memcpy(local.sun_path, argument, length);
        return try_connect(AF_UNIX, (struct sockaddr *)&local, sizeof local, SOCK_STREAM);
    }
    if (!strcmp(act, "abstract")) {
        memcpy(local.sun_path + 1, argument, length);
        socklen_t size = (socklen_t)(sizeof(sa_family_t) + 1 + length);
        return try_connect(AF_UNIX, (struct sockaddr *)&local, size, SOCK_STREAM);
    }
    if (!strcmp(act, "environ") || !strcmp(act, "mem") || !strcmp(act, "signal") || !strcmp(act, "trace"))
        return try_process(act, (pid_t)atoi(argument));
    if (!strcmp(act, "root")) return setuid(0) ? errno : 0;
    if (!strcmp(act, "loopback")) return try_loopback(atoi(argument) == 6 ? AF_INET6 : AF_INET);
    return ENOTSUP;
}

static void probe(const char *at, const char *end) {
    const char *act, *argument;
    char line[32];
    while ((act = take(&at, end)) && (argument = take(&at, end))) {
        int n = snprintf(line, sizeof line, "%d\n", try_act(act, argument));
        if (write(1, line, (size_t)n) != n) _exit(1);
    }
    _exit(0);
}

/* ---- one command ---- */

/* In the child: takes on the confinement. Returns the step that failed, or NULL. */
static const char *confine(const char *folder, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (setsid() < 0) return "setsid";
    for (int i = 0; i < plan.n_limits; i++) {
        int resource = atoi(plan.limits[i].a);
        struct rlimit limit, now;
        if (getrlimit((unsigned)resource, &now)) return "getrlimit";
        limit.rlim_cur = limit.rlim_max = strtoul(plan.limits[i].b, NULL, 10);
        if (now.rlim_max != RLIM_INFINITY && limit.rlim_max > now.rlim_max) limit.rlim_cur = limit.rlim_max = now.rlim_max;
        if (setrlimit((unsigned)resource, &limit)) return "setrlimit";
    }
    if (geteuid() == 0) {
        if (setgroups(0, NULL)) return "setgroups";
        if (setresgid(plan.gid, plan.gid, plan.gid)) return "setresgid";
        if (setresuid(plan.uid, plan.uid, plan.uid)) return "setresuid";
    }
    if (getuid() != plan.uid || geteuid() != plan.uid || getgid() != plan.gid) return errno = EPERM, "wrong user";
    if (set_capabilities(0)) return "drop capabilities";
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent) return errno = ESRCH, "parent";
    if (chdir(plan.root) || chdir(folder)) return "enter folder";
    if (ruleset >= 0 && syscall(446, ruleset, 0)) return "Landlock";
    return NULL;
}

static void put32(char **at, uint32_t value) { value = htobe32(value); memcpy(*at, &value, 4); *at += 4; }
static void put64(char **at, uint64_t value) { value = htobe64(value); memcpy(*at, &value, 8); *at += 8; }

static size_t kept(const struct capture *c) {
    return c->n_head + (size_t)(c->n_tail < c->cap_tail ? c->n_tail : c->cap_tail);
}

static void put_stream(char **at, const struct capture *c) {
    uint64_t dropped = c->n_tail > c->cap_tail ? c->n_tail - c->cap_tail : 0;
    put64(at, dropped);
    put32(at, dropped ? (uint32_t)c->n_head : 0);
    put32(at, (uint32_t)kept(c));
}

static void write_stream(const struct capture *c) {
    write_all(c->head, c->n_head);
    if (c->n_tail <= c->cap_tail) write_all(c->tail, (size_t)c->n_tail);
    else write_all(c->tail + c->at, c->cap_tail - c->at), write_all(c->tail, c->at);
}

struct room { uint64_t bytes, files; };

/* What is free on the disks of the writable root and of TMPDIR, and whether that is too little. */
static int room(int i, struct room *left) {
    struct statvfs disk;
    memset(left, 0, sizeof *left);
    if (fstatvfs(disks[i], &disk)) return 0;
    uint64_t size = (uint64_t)disk.f_blocks * disk.f_frsize;
    left->bytes = (uint64_t)disk.f_bavail * disk.f_frsize, left->files = disk.f_favail;
    uint64_t reserve = plan.reserve < size / 20 ? plan.reserve : size / 20;
    return left->bytes < reserve || (disk.f_files && left->files < disk.f_files / 20);
}

struct memory { unsigned long total, available, shared; };

/* The machine's memory in bytes. Shared memory belongs to no process (files in memory, segments by number), so what
   a command takes of it shows here alone. */
static void memory(struct memory *now) {
    char line[128];
    memset(now, 0, sizeof *now);
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "MemTotal: %lu", &now->total);
        sscanf(line, "MemAvailable: %lu", &now->available);
        sscanf(line, "Shmem: %lu", &now->shared);
    }
    fclose(file);
    now->total *= 1024, now->available *= 1024, now->shared *= 1024;
}

static int watch(const struct room before[2], const struct memory *then) {
    struct tally tally = {0, 0, 0};
    struct memory now;
    memory(&now);
    descend(helper_pid, measure, &tally, 0);
    if (now.shared > then->shared) tally.bytes += now.shared - then->shared;
    if (plan.memory && tally.bytes > plan.memory) return KILLED_MEMORY;
    /* What earlier commands left in memory stays, so the machine's last twentieth is kept free as a disk's is. */
    if (plan.memory && now.available < now.total / 20 && now.available < then->available) return KILLED_MEMORY;
    if (plan.pids && tally.processes > plan.pids) return KILLED_PIDS;
    for (int i = 0; i < 2; i++) {
        struct room left;
        /* A disk that was short before is not this command's fault, unless it takes still more. */
        if (room(i, &left) && (left.bytes < before[i].bytes || left.files < before[i].files)) return KILLED_DISK;
        if (plan.growth && before[i].bytes > left.bytes && before[i].bytes - left.bytes > plan.growth) return KILLED_DISK;
    }
    return KILLED_NOT;
}

static void run(int64_t timeout_ms, size_t cap, const char *folder, const char *command,
                const char *acts, const char *acts_end) {
    struct capture out, err;
    struct room before[2];
    struct memory then;
    int out_end = -1, err_end = -1, trouble[2], status = 0, ended = 0, timed_out = 0, reason = KILLED_NOT;
    static char pwd[8192];
    int64_t start = now_us(), deadline = start + timeout_ms * 1000, tick = start + TICK_MS * 1000;
    room(0, &before[0]), room(1, &before[1]), memory(&then);
    unsigned survivors = sweep(); /* something that was stuck before must not meet this command */

    if (capture_open(&out, cap, &out_end) || capture_open(&err, cap, &err_end) || pipe2(trouble, O_CLOEXEC)) {
        send_frame('E', why, strlen(why));
        _exit(1);
    }
    if (!strcmp(folder, ".")) snprintf(pwd, sizeof pwd, "PWD=%s", plan.root);
    else snprintf(pwd, sizeof pwd, "PWD=%s/%s", plan.root, folder);
    pid_t child = fork();
    if (child == 0) {
        dup2(devnull, 0), dup2(out_end, 1), dup2(err_end, 2);
        const char *step = confine(folder, helper_pid);
        if (!step) {
            if (acts) probe(acts, acts_end);
            plan.argv[plan.n_argv] = command, plan.argv[plan.n_argv + 1] = NULL;
            plan.env[plan.n_env] = pwd, plan.env[plan.n_env + 1] = NULL;
            execve(plan.argv[0], (char **)plan.argv, (char **)plan.env);
            step = "start the shell";
        }
        fail(step);
        if (write(trouble[1], why, strlen(why)) < 0) {}
        _exit(127);
    }
    close(out_end), close(err_end), close(trouble[1]);
    int watcher = child > 0 ? (int)syscall(434, child, 0) : -1; /* pidfd_open */
    if (child < 0 || watcher < 0) {
        fail("start a process");
        send_frame('E', why, strlen(why));
        _exit(1);
    }

    while (!ended) {
        struct pollfd polled[4] = {{0, POLLRDHUP, 0}, {watcher, POLLIN, 0}, {out.fd, POLLIN, 0}, {err.fd, POLLIN, 0}};
        int64_t now = now_us(), next = deadline < tick ? deadline : tick;
        poll(polled, 4, next > now ? (int)((next - now) / 1000) + 1 : 0);
        if (polled[0].revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)) { /* the broker is gone */
            kill(child, SIGKILL);
            sweep();
            _exit(0);
        }
        capture_read(&out, 16), capture_read(&err, 16);
        now = now_us();
        if (now >= tick && !reason && !timed_out) {
            reason = watch(before, &then);
            tick = now_us() + TICK_MS * 1000;
        }
        if ((now >= deadline || reason) && !timed_out) {
            timed_out = now >= deadline && !reason;
            kill(child, SIGKILL);
            deadline = tick = now + 60000000;
        }
        int state;
        for (pid_t pid; (pid = waitpid(-1, &state, WNOHANG)) > 0;)
            if (pid == child) status = state, ended = 1;
    }
    close(watcher);
    survivors += sweep();
    /* Every writer is dead: what is left fits the pipe. The bound is for one stuck in the kernel. */
    capture_read(&out, 64), capture_read(&err, 64);

    ssize_t n = read(trouble[0], why, sizeof why - 1);
    close(trouble[0]);
    if (n > 0) send_frame('E', why, (size_t)n);
    else {
        char fixed[84], *at = fixed + 4; /* the length goes before it, in the same write: each wakes the reader */
        *at++ = 'D';
        put32(&at, WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : UINT32_MAX);
        put32(&at, WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0);
        put32(&at, (uint32_t)timed_out), put32(&at, (uint32_t)reason), put32(&at, survivors);
        put64(&at, (uint64_t)(now_us() - start));
        put_stream(&at, &out), put_stream(&at, &err);
        uint32_t length = htobe32((uint32_t)((size_t)(at - fixed - 4) + kept(&out) + kept(&err)));
        memcpy(fixed, &length, 4);
        write_all(fixed, (size_t)(at - fixed));
        write_stream(&out), write_stream(&err);
    }
    capture_close(&out), capture_close(&err);
}

static void serve(void) {
    char *body;
    for (long size; (size = read_frame(&body)) > 0; free(body)) {
        const char *at = body + 1, *end = body + size;
        if (*body == 'T') run(5000, 65536, ".", NULL, at, end);
        else {
            const char *timeout = take(&at, end), *cap = take(&at, end), *folder = take(&at, end);
            const char *command = take(&at, end);
            if (*body != 'X' || !command) break;
            size_t bytes = strtoul(cap, NULL, 10);
            run(strtol(timeout, NULL, 10), bytes < MAX_OUTPUT ? bytes : MAX_OUTPUT, folder, command, NULL, NULL);
        }
    }
    sweep();
    _exit(0);
}

/* ---- start ---- */

/* A level's name is its form and its network: `root-none`, `net-none`, `bare-none`, `root-open`, `bare-open`. */
static pid_t start_level(const char *name) {
    unsigned long flags = SIGCHLD;
    level = !strncmp(name, "root", 4) ? LEVEL_ROOT : !strncmp(name, "net", 3) ? LEVEL_NET
        : !strncmp(name, "init", 4) ? LEVEL_INIT : LEVEL_BARE;
    int makes = level == LEVEL_ROOT || level == LEVEL_NET;
    own_network = makes && strstr(name, "-none");
    if (level == LEVEL_ROOT) flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
    if (own_network) flags |= CLONE_NEWNET;
    if (makes && geteuid() != 0) flags |= CLONE_NEWUSER;
    return (pid_t)syscall(SYS_clone, flags, 0, 0, 0, 0); /* like fork, into the new namespaces */
}

int main(void) {
    char *body, notes[4096];
    size_t used = 0;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* first: exec made us dumpable again */
    signal(SIGPIPE, SIG_IGN);
    syscall(436, 3, ~0u, 0); /* close_range */
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    umask(022);
    long size = read_frame(&body);
    if (size < 2 || *body != 'P' || parse_plan(body + 1, body + size)) {
        send_frame('E', "the plan is not one", 19);
        return 2;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (int i = 0; i < plan.n_levels; i++) {
        int told[2];
        if (load_filter(plan.levels[i]) || pipe2(told, O_CLOEXEC)) break;
        pid_t child = start_level(plan.levels[i]);
        if (child == 0) {
            close(told[0]);
            helper_pid = getpid();
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            int bad = set_up();
            if (write(told[1], bad ? why : "+", bad ? strlen(why) : 1) < 0 || bad) _exit(1);
            close(told[1]);
            char ready[4200];
            size_t n = (size_t)snprintf(ready, sizeof ready, "%s", plan.levels[i]) + 1;
            memcpy(ready + n, notes, used);
            send_frame('R', ready, n + used);
            serve();
        }
        if (child < 0) fail("make namespaces");
        close(told[1]);
        ssize_t n = child > 0 ? read(told[0], why, sizeof why - 1) : 0;
        close(told[0]);
        if (n > 0) why[n] = 0;
        if (n == 1 && *why == '+') {
            helper_pid = getpid(); /* from here on: only wait, and clean up should the helper be killed */
            close(0), close(1);
            int status;
            while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
            if (level != LEVEL_INIT) level = LEVEL_BARE; /* namespaces end with their first process */
            sweep();
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        if (child > 0) waitpid(child, NULL, 0);
        int wrote = snprintf(notes + used, sizeof notes - used, "%s%c%s", plan.levels[i], 0, why);
        if (wrote > 0 && used + (size_t)wrote + 1 < sizeof notes) used += (size_t)wrote + 1;
    }
    send_frame('E', why, strlen(why));
    return 1;
}
