// The program: its commands and flags. One line and exit code 2 for anything that cannot be understood.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>

#include "gate/commands.hpp"
#include "judge/implementation.hpp"

namespace {

constexpr const char* kImplementationHelp =
    "implementation under test: a built-in name (sinktrap list implementations) or FILE.so?OPTIONS; may be "
    "repeated";

// CLI::Range lets NaN through: it is neither below nor above.
CLI::Validator between(double least, double most) {
  const auto refuse = [=](const std::string& text) {
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool fits =
        status == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
    return fits ? std::string() : fmt::format("expected a number in {}..{}, found {}", least, most, text);
  };
  return {refuse, fmt::format("FLOAT in [{} - {}]", least, most), ""};
}

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& w : words) line += (line.empty() ? "" : " ") + w;
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"sinktrap: conformance and fuzzing of shared-sink LoRA layers", "sinktrap"};
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error&) { return std::string(); });
  app.set_help_all_flag("--help-all", "Help of every command");
  app.set_version_flag("--version", SINKTRAP_VERSION);

  sinktrap::RunArguments run;
  CLI::App* run_app =
      app.add_subcommand("run", "Judge an implementation on the cases of a suite (exit 0 conforming, 1 not)");
  run_app->add_option("--impl", run.implementations, kImplementationHelp)
      ->type_name("IMPL")
      ->allow_extra_args(false);
  run_app->add_option("--suite", run.suite, "smoke or conformance")->capture_default_str();
  run_app->add_option("--law", run.laws, "only this law (sinktrap list laws); may be repeated")
      ->type_name("ID")
      ->allow_extra_args(false);
  run_app->add_option("--cases", run.cases, "generated cases for each implementation")
      ->check(CLI::Range(0, 100000000));
  run_app->add_option("--seconds", run.seconds, "generate cases until then")->check(between(0.0, 1e7));
  run_app->add_option("--seed", run.seed, "seed of the generated cases")->capture_default_str();
  run_app->add_option("--jobs", run.jobs, "worker processes (default: one for each processor)")
      ->check(CLI::Range(1, 1024));
  run_app
      ->add_option("--timeout", run.timeout,
                   "seconds that one case may take, without what it waits for a core")
      ->capture_default_str()
      ->check(between(0.1, 1e6));
  run_app
      ->add_option("--line-up", run.line_up,
                   "what is said about a failing implementation: all, parts (without known faults), where "
                   "(only the place) or off")
      ->capture_default_str();
  run_app->add_option("--json", run.json, "write a JSON report (- is stdout)")->type_name("FILE");
  run_app->add_option("--junit", run.junit, "write a JUnit XML report (- is stdout)")->type_name("FILE");
  run_app->add_option("--out", run.folder, "folder for running and failing case lines")
      ->capture_default_str();

  sinktrap::CheckArguments check;
  CLI::App* check_app =
      app.add_subcommand("check", "Judge given cases under every law that speaks about them");
  check_app->add_option("cases", check.cases, "case lines, each quoted")->type_name("CASE");
  check_app->add_option("--file", check.files, "file of case lines; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  check_app->add_option("--impl", check.implementations, kImplementationHelp)
      ->type_name("IMPL")
      ->allow_extra_args(false);
  check_app->add_option("--law", check.laws, "only this law; may be repeated")
      ->type_name("ID")
      ->allow_extra_args(false);
  check_app
      ->add_option("--timeout", check.timeout,
                   "seconds that one case may take, without what it waits for a core")
      ->capture_default_str()
      ->check(between(0.1, 1e6));
  check_app->add_option("--out", check.folder, "folder for the line of the running case")
      ->capture_default_str();

  sinktrap::ValidateArguments validate;
  std::vector<std::string> layout_words;
  CLI::App* validate_app = app.add_subcommand(
      "validate", "Verdicts on layouts: a LAYOUT in words for people (exit 1 if invalid), or JSON lines");
  validate_app
      ->add_option(
          "layout", layout_words,
          "n=2 gate_up_lora_a=3x1x6x8 gate_up_lora_b=3x2x10x3 down_lora_a=3x2x3x5 down_lora_b=3x1x8x3")
      ->type_name("LAYOUT");
  validate_app->add_option("--profile", validate.profile, "strict or sglang")->capture_default_str();
  validate_app
      ->add_option("--jsonl", validate.jsonl, "one layout a line (- is stdin); one JSON verdict a line")
      ->type_name("FILE");
  validate_app
      ->add_option("--impl", validate.implementations,
                   std::string(kImplementationHelp) + " (default: reference)")
      ->type_name("IMPL")
      ->allow_extra_args(false);

  sinktrap::ReplayArguments replay;
  CLI::App* replay_app =
      app.add_subcommand("replay", "Compare with the expected values in safetensors files");
  replay_app->add_option("files", replay.files, "forward and pack vectors")->type_name("FILE")->required();
  replay_app
      ->add_option("--impl", replay.implementations,
                   std::string(kImplementationHelp) + " (default: reference and the default of run)")
      ->type_name("IMPL")
      ->allow_extra_args(false);

  sinktrap::MutantsArguments mutants;
  CLI::App* mutants_app = app.add_subcommand(
      "mutants", "Prove that the laws can see: judge wrong implementations (exit 1 if one survives)");
  mutants_app
      ->add_option("names", mutants.names,
                   "only these mutants (sinktrap list mutants); default: all but the kind large")
      ->type_name("NAME");
  mutants_app->add_option("--cases", mutants.cases, "cases after which a mutant counts as a survivor")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  mutants_app->add_option("--seed", mutants.seed, "seed of the generated cases")->capture_default_str();
  mutants_app->add_option("--jobs", mutants.jobs, "worker processes (default: one for each processor)")
      ->check(CLI::Range(1, 1024));
  mutants_app->add_option("--json", mutants.json, "write the kill matrix as JSON (- is stdout)")
      ->type_name("FILE");
  mutants_app->add_option("--out", mutants.folder, "folder for the line of the running case")
      ->capture_default_str();

  sinktrap::NightlyArguments nightly;
  CLI::App* nightly_app = app.add_subcommand("nightly",
                                             "Fuzz, minimise, test and report within a budget (exit 1 if "
                                             "anything was found); ./sinktrap builds for it");
  nightly_app->add_option("--hours", nightly.hours, "the budget (default: 8 hours)")
      ->check(between(0.0, 1e4));
  nightly_app->add_option("--seconds", nightly.seconds, "the budget in seconds")->check(between(0.0, 1e7));
  nightly_app->add_option("--jobs", nightly.jobs, "processes at once (default: one for each processor)")
      ->check(CLI::Range(1, 1024));
  nightly_app
      ->add_option("--out", nightly.out, "folder of corpus, findings and reports (default: build/nightly)")
      ->type_name("DIR");
  nightly_app
      ->add_option("--impl", nightly.implementations,
                   std::string(kImplementationHelp) + " (default: what the fuzz targets judge)")
      ->type_name("IMPL")
      ->allow_extra_args(false);
  nightly_app
      ->add_option("--targets", nightly.targets,
                   "list of fuzz targets (default: build/fuzz/fuzz/targets.txt)")
      ->type_name("FILE");
  nightly_app
      ->add_option("--build", nightly.build, "build folder whose nightly tests run (default: the program's)")
      ->type_name("DIR");
  nightly_app->add_flag("--dry-run", nightly.dry_run, "print how the budget would be shared, and stop");

  std::string what;
  CLI::App* list_app =
      app.add_subcommand("list", "implementations, laws, mutants, suites, statuses or faults");
  list_app->add_option("what", what, "implementations, laws, mutants, suites, statuses or faults")
      ->required();

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    app.exit(e);
    return 0;
  } catch (const CLI::Error& e) {
    std::string line = e.what();
    bool known = argc < 2 || argv[1][0] == '-';
    for (const CLI::App* command : app.get_subcommands({})) known = known || command->check_name(argv[1]);
    if (!known)
      line = fmt::format(
          "unknown command {}; expected run, check, validate, replay, mutants, nightly or list", argv[1]);
    for (char& c : line)
      if (c == '\n') c = ' ';
    return sinktrap::bad_input(line + "; see sinktrap --help");
  }
  const auto chosen = [&] {
    if (*run_app) return sinktrap::run_command(run);
    if (*check_app) return sinktrap::check_command(check);
    if (*validate_app) {
      validate.layout = joined(layout_words);
      return sinktrap::validate_command(validate);
    }
    if (*replay_app) return sinktrap::replay_command(replay);
    if (*mutants_app) return sinktrap::mutants_command(mutants);
    if (*nightly_app) return sinktrap::nightly_command(nightly);
    return sinktrap::list_command(what);
  };
  const int code = chosen();
  if (sinktrap::library_loaded()) {
    // Destructors of a library that crash, hang or end the process otherwise would replace the code.
    std::fflush(nullptr);
    _exit(code);
  }
  return code;
}
