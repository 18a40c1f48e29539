// Something dangerous said by a child process: code of an implementation that may crash, hang or exit.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace sinktrap {

// What `work` returns when it is run in a child. A child that does not come so far is described instead: "WHO
// was killed by signal 11 (Segmentation fault) DOING". What is not through within the limit is killed.
// Nothing that `work` does reaches this process.
constexpr std::chrono::seconds kChildLimit{
    30};  // a library of kernels loads in less, on a loaded machine too
std::string said_by_child(const std::string& who, const std::string& doing,
                          const std::function<std::string()>& work,
                          std::chrono::milliseconds limit = kChildLimit);

// How a process ended, of what waitpid says: "was killed by signal 11 (Segmentation fault)" or "ended the
// process with status 3".
std::string end_text(int status);

}  // namespace sinktrap
