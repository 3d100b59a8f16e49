#include "operator/kube/token_source.h"

#include <utility>

namespace lockstep::kube {
namespace {

constexpr std::chrono::seconds kTokenReadPeriod{50};

}  // namespace

using common::Error;
using common::ErrorCode;
using common::Result;

TokenSource::TokenSource(std::string fixed_token, std::string token_file, FileReader reader)
    : fixed_token_(std::move(fixed_token)),
      token_file_(std::move(token_file)),
      reader_(std::move(reader)) {}

Result<std::string> TokenSource::token(Clock::time_point now) {
  if (token_file_.empty()) return fixed_token_;
  {
    const MutexLock lock(mutex_);
    if (!current_.empty() && read_at_ && now - *read_at_ < kTokenReadPeriod) return current_;
  }
  const Result<std::string> text = reader_(token_file_);
  const std::string fresh = text ? trim(*text) : "";
  const MutexLock lock(mutex_);
  read_at_ = now;
  if (!fresh.empty()) current_ = fresh;
  if (!current_.empty()) return current_;
  return Error{ErrorCode::kPermissionDenied,
               text ? token_file_ + ": holds no token" : text.error().message, ""};
}

void TokenSource::invalidate() {
  const MutexLock lock(mutex_);
  read_at_.reset();
}

}  // namespace lockstep::kube
