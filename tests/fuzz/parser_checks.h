// What must hold of our parsers whatever bytes they are given, apart from no undefined behaviour.
// Each check ends the process if it does not: libFuzzer keeps the input.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep::fuzz {

// `bytes` as the lines of a watch, of a list told as events as of one that follows a list: cut the
// same however they arrive, taken by WatchState in order of versions, and projected as objects of
// each kind that the operator watches.
void check_events(std::string_view bytes);

// `bytes` as the body of a refusal, as the object of an ERROR event and as a Retry-After header:
// errors have words that JSON can carry, and pauses that clocks can.
void check_status(std::string_view bytes);

// `bytes` as a kubeconfig: a configuration that names a server, or an error that names the file.
void check_kubeconfig(std::string_view bytes);

// `bytes` as a quantity: what the CRD's pattern, quantity_bytes() and multiply_quantity() take for
// one is the same, and the product is the multiple of the amount.
void check_quantity(std::string_view bytes);

struct Parser {
  std::string name;  // as its folder in corpus/
  void (*check)(std::string_view bytes);
};
std::span<const Parser> parsers();

}  // namespace lockstep::fuzz
