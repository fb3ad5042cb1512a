//! The perf client's host build: what it prints, that what it calls right is right, and that it notices what is wrong.

use std::path::{Path, PathBuf};
use std::process::Command;

use fakegpu_verification::Layout;
use serde_json::Value;

/// The programs, with their reductions, special ranks among `ranks`, and whether they have an in-place half.
const PROGRAMS: [(&str, bool, bool, bool); 10] = [
    ("all_reduce_perf", true, false, true),
    ("all_gather_perf", false, false, true),
    ("reduce_scatter_perf", true, false, true),
    ("broadcast_perf", false, true, true),
    ("reduce_perf", true, true, true),
    ("alltoall_perf", false, false, false),
    ("gather_perf", false, true, true),
    ("scatter_perf", false, true, true),
    ("sendrecv_perf", false, false, false),
    ("hypercube_perf", false, false, true),
];

const TYPES: usize = 12;
const REDUCTIONS: usize = 6;

/// What a run left.
struct Outcome {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Outcome {
    /// The table's lines.
    fn rows(&self) -> Vec<Row> {
        self.out.lines().filter(|line| !line.starts_with('#')).filter_map(Row::read).collect()
    }

    #[track_caller]
    fn assert_code(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
    }
}

/// A line of the table, in words.
struct Row(Vec<String>);

impl Row {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        (words.len() == 15).then_some(Self(words))
    }

    fn wrong(&self, in_place: bool) -> Option<u64> {
        self.0[if in_place { 14 } else { 9 }].parse().ok()
    }

    fn model(&self) -> Option<f64> {
        self.0[6].parse().ok()
    }
}

/// The client in a folder of its own.
struct Perf {
    layout: Layout,
    folder: tempfile::TempDir,
}

impl Perf {
    fn new() -> Self {
        Self { layout: Layout::find(), folder: tempfile::tempdir().unwrap() }
    }

    fn program(&self, name: &str) -> PathBuf {
        self.layout.root().join("bin").join(name)
    }

    /// A process that is started as a user does.
    fn alone(&self, name: &str, arguments: &str) -> Outcome {
        self.finish(Command::new(self.program(name)).args(arguments.split_whitespace()))
    }

    /// `processes` of them on one node, which has room for `ranks`.
    fn launched(&self, ranks: u32, processes: u32, name: &str, arguments: &str) -> Outcome {
        let mut command = Command::new(self.layout.fakegpu());
        command.arg("run").args(["--no-prefix", "--ranks-per-node", &ranks.to_string()]);
        command.args(["-n", &processes.to_string(), "--"]).arg(self.program(name));
        self.finish(command.args(arguments.split_whitespace()))
    }

    /// With a library of ours in front of the real one.
    fn with(&self, library: &Path, name: &str, arguments: &str) -> Outcome {
        let mut command = Command::new(self.program(name));
        self.finish(command.env("LD_PRELOAD", library).args(arguments.split_whitespace()))
    }

    fn finish(&self, command: &mut Command) -> Outcome {
        for variable in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "FAKEGPU_NODE"] {
            command.env_remove(variable);
        }
        let output = command.current_dir(self.folder.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Outcome { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// A shared library of this C text.
    fn library(&self, text: &str) -> PathBuf {
        let source = self.folder.path().join("library.c");
        let output = self.folder.path().join("library.so");
        std::fs::write(&source, format!("#include <nccl.h>\n{text}\n")).unwrap();
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-I"]).arg(self.layout.root().join("include"));
        let result = command.arg(source).arg("-o").arg(&output).output().unwrap();
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        output
    }
}

/// Everything a program can be asked for over `ranks` ranks, with sizes from 0 to 301 bytes.
#[track_caller]
fn assert_all_right(outcome: &Outcome, program: (&str, bool, bool, bool), ranks: usize) {
    let (name, reduces, has_root, has_in_place) = program;
    outcome.assert_code(0);
    let rows = outcome.rows();
    let cases = TYPES * if reduces { REDUCTIONS } else { 1 } * if has_root { ranks } else { 1 };
    assert_eq!(rows.len(), cases * 2, "{name}: {}", outcome.out);
    for row in rows {
        assert_eq!(row.wrong(false), Some(0), "{name}: {:?}", row.0);
        assert_eq!(row.wrong(true), has_in_place.then_some(0), "{name}: {:?}", row.0);
    }
    assert!(outcome.out.contains("# Out of bounds values : 0 OK\n"), "{}", outcome.out);
}

const EVERYTHING: &str = "-d all -o all -r all -b 0 -e 301 -i 301 -n 2";

#[test]
fn the_models_time_is_there_without_a_gpu_and_grows_with_the_size() {
    let perf = Perf::new();
    let outcome = perf.launched(2, 2, "all_reduce_perf", "-b 1K -e 64M -f 65536 -n 3");
    outcome.assert_code(0);
    let model: Vec<f64> = outcome.rows().iter().filter_map(Row::model).collect();
    assert!(matches!(model[..], [small, large] if small > 0.0 && large > 10.0 * small), "{}", outcome.out);
}

#[test]
fn every_type_and_reduction_is_right_with_several_ranks_in_one_thread() {
    let perf = Perf::new();
    for program in PROGRAMS {
        assert_all_right(&perf.alone(program.0, &format!("-g 4 {EVERYTHING}")), program, 4);
    }
}

#[test]
fn every_type_and_reduction_is_right_with_an_odd_number_of_threads() {
    let perf = Perf::new();
    for program in PROGRAMS.into_iter().filter(|program| program.0 != "hypercube_perf") {
        assert_all_right(&perf.alone(program.0, &format!("-t 3 -p 1 {EVERYTHING}")), program, 3);
    }
}

#[test]
fn processes_threads_and_ranks_a_thread_multiply() {
    let perf = Perf::new();
    for program in PROGRAMS {
        let root = if program.2 { "-r 5" } else { "" };
        let arguments = format!("-t 2 -g 2 -m 2 -b 4K -e 16K -f 4 -n 3 -c 2 {root}");
        let outcome = perf.launched(8, 2, program.0, &arguments);
        outcome.assert_code(0);
        assert!(outcome.out.contains("# 8 ranks, 2 threads a process, 2 ranks a thread"), "{}", outcome.out);
        let rows = outcome.rows();
        assert_eq!(rows.len(), 2, "{}", outcome.out);
        assert!(rows.iter().all(|row| row.wrong(false) == Some(0)), "{}", outcome.out);
        assert!(outcome.out.contains("#  rank    7  "), "{}", outcome.out);
    }
}

#[test]
fn each_rank_notices_a_broken_element_input_and_guard() {
    let perf = Perf::new();
    for (name, ..) in PROGRAMS {
        let outcome = perf.alone(name, "--self-test -g 2 -d all -o all -r all -b 64 -e 64 -n 1 -w 0");
        outcome.assert_code(0);
        let line = outcome.out.lines().find(|line| line.starts_with("# Self test ")).unwrap();
        assert!(line.ends_with("breaks noticed OK"), "{name}: {line}");
        assert!(outcome.rows().iter().all(|row| row.wrong(false) >= Some(2)), "{name}: {}", outcome.out);
        assert!(outcome.out.contains(" FAILED\n"), "{name}: {}", outcome.out);
    }
}

/// Otherwise the check may have looked at nothing: a library that takes the smallest for the sum, leaves a byte behind
/// the buffer, and changes what it was given.
#[test]
fn a_library_that_computes_something_else_fails_the_run() {
    let perf = Perf::new();
    let call = "ncclResult_t ncclAllReduce(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o, \
                ncclComm_t c, cudaStream_t q) { ";
    for (body, has_wrong, has_outside) in [
        ("return pncclAllReduce(s, r, n, t, ncclMin, c, q); }", true, false),
        ("return ncclSuccess; }", true, false),
        ("int e = pncclAllReduce(s, r, n, t, o, c, q); ((char *)r)[n * 4] = 1; return e; }", false, true),
        ("int e = pncclAllReduce(s, r, n, t, o, c, q); *(char *)s ^= 1; return e; }", true, false),
    ] {
        let library = perf.library(&format!("{call}{body}"));
        let outcome = perf.with(&library, "all_reduce_perf", "-g 2 -b 4K -e 4K -n 1");
        outcome.assert_code(1);
        assert_eq!(outcome.rows()[0].wrong(false) > Some(0), has_wrong, "{body}: {}", outcome.out);
        assert_eq!(!outcome.out.contains("values : 0 OK"), has_outside, "{body}: {}", outcome.out);
    }
}

/// A clock that says 10 us an operation, whatever the library's own says: 2 warm-ups are not in it.
const CLOCK: &str = "static double now; static int steps;
    ncclResult_t fakegpu_modelled_time(ncclComm_t comm, double *seconds) {
      (void)comm; now += steps++ % 2 ? 40e-6 : 7; *seconds = now; return ncclSuccess; }";

const TABLE: &str = "\
#  rank    N  pid       N  node - (HOST)  device  N  host memory
#
#                                                                           out-of-place                                    in-place
#        size         count      type   redop    root        time     model   algbw   busbw  #wrong      time     model   algbw   busbw  #wrong
#         (B)    (elements)                                  (us)      (us)  (GB/s)  (GB/s)              (us)      (us)  (GB/s)  (GB/s)
            N             N      half     max      -N           N         N       N       N       N         N         N       N       N       N
            N             N      half     max      -N           N         N       N       N       N         N         N       N       N       N
# Out of bounds values : N OK
# Avg bus bandwidth    : N
# Avg modelled bus bw  : N
#
";

/// A line in which every number is an N where its last digit was; columns are flush right, so theirs stay in place.
fn masked(line: &str) -> String {
    let line = match (line.find(" ("), line.find(")  device")) {
        (Some(from), Some(to)) => format!("{} (HOST{}", &line[..from], &line[to..]),
        _ => line.to_owned(),
    };
    let mut masked = String::new();
    for word in line.split_inclusive(' ') {
        let number = word.trim_end().trim_start_matches('-');
        if number.parse::<f64>().is_ok() {
            let kept = word.replace(number, "N");
            masked.extend(std::iter::repeat_n(' ', word.len() - kept.len()));
            masked += &kept;
        } else {
            masked += word;
        }
    }
    masked.trim_end().to_owned()
}

#[test]
fn the_table_has_the_columns_of_nccl_tests_and_the_models_time() {
    let perf = Perf::new();
    let clock = perf.library(CLOCK);
    let outcome =
        perf.with(&clock, "all_reduce_perf", "-b 8K -e 64M -f 8192 -d half -o max -n 4 -w 2 -J out.json");
    outcome.assert_code(0);
    let table: Vec<String> =
        outcome.out.lines().skip_while(|line| !line.starts_with("#  rank")).map(masked).collect();
    // What stands left of a number without a fixed width moves with it.
    let expected: Vec<&str> = TABLE.lines().collect();
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(table[..7], expected[..7], "{}", outcome.out);
    for (found, wanted) in table[7..].iter().zip(&expected[7..]) {
        assert_eq!(squeezed(found), squeezed(wanted));
    }
    assert_eq!(table.len(), expected.len());
    assert_eq!(outcome.rows()[0].model(), Some(10.0), "{}", outcome.out);

    let json: Value =
        serde_json::from_slice(&std::fs::read(perf.folder.path().join("out.json")).unwrap()).unwrap();
    assert_eq!(json["program"], "all_reduce_perf");
    assert_eq!(json["devices"].as_array().unwrap().len(), 1);
    let line = &json["results"][1];
    assert_eq!((&line["size_bytes"], &line["count"]), (&Value::from(64 << 20), &Value::from(32 << 20)));
    assert_eq!((&line["type"], &line["redop"], &line["root"]), (&"half".into(), &"max".into(), &(-1).into()));
    assert_eq!(line["in_place"]["model_us"], 10);
    assert_eq!((&json["wrong"], &json["out_of_bounds"]), (&0.into(), &0.into()));
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let perf = Perf::new();
    for (arguments, sentence) in [
        ("--surprise 1", "there is no option `--surprise` (-h lists all options)"),
        ("-b", "-b lacks its value, SIZE"),
        ("-b 8Q", "-b takes bytes, or KiB, MiB or GiB with a K, M or G; it was given `8Q`"),
        ("-b 2M -e 1M", "the first size must not be above the last"),
        ("-b 0 -e 8 -f 2", "--minbytes is 0, which --stepfactor cannot multiply"),
        ("-f 1", "-f takes a factor above 1; it was given `1`"),
        ("-i 0 -b 1 -e 2", "--stepbytes is 0: sizes would stay at --minbytes"),
        ("-g 0", "-g takes a number from 1 to 1024; it was given `0`"),
        ("-n many", "-n takes a number from 1 on; it was given `many`"),
        ("--op=xor", "--op takes one of sum, prod, max, min, avg, mulsum, or all; it was given `xor`"),
        ("-d int7", "-d takes one of int8, uint8, "),
        ("-r 2 -g 2", "--root is 2, and the ranks are 0 to 1"),
        ("-G 1", "-G needs CUDA's streams, and this is the host build"),
        ("-c 0 --self-test", "--self-test is about the check, and --check 0 leaves it out"),
        (
            "-b 8 -e 8 -J missing/out.json",
            "cannot write --output_file missing/out.json: No such file or directory",
        ),
    ] {
        let outcome = perf.alone("broadcast_perf", arguments);
        outcome.assert_code(1);
        assert!(outcome.err.contains(sentence), "{arguments}: {}", outcome.err);
        assert_eq!(outcome.err.lines().count(), 1, "{arguments}: {}", outcome.err);
    }
    let cube = perf.alone("hypercube_perf", "-g 3");
    cube.assert_code(1);
    assert!(
        cube.err.contains("needs 2, 4, 8, ... ranks, the corners of a cube; there are 3"),
        "{}",
        cube.err
    );
    let nameless = perf.alone("fakegpu-perf", "-b 8");
    nameless.assert_code(1);
    assert!(
        nameless.err.starts_with("there is no program `-b`: one of all_reduce_perf, "),
        "{}",
        nameless.err
    );
}

#[test]
fn help_names_every_option() {
    let outcome = Perf::new().alone("fakegpu-perf", "gather_perf --help");
    outcome.assert_code(0);
    assert!(
        outcome.out.starts_with("gather_perf [OPTIONS]\n\nTimes ncclGather on all ranks"),
        "{}",
        outcome.out
    );
    for letter in "tgbeifnwmapcodrzyTGCRJh".chars() {
        assert!(outcome.out.contains(&format!("\n  -{letter}, --")), "-{letter}: {}", outcome.out);
    }
}
