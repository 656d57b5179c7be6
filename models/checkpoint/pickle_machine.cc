// The opcodes that torch.save() emits (protocol 2), and their equivalents of protocols 3 to 5. The
// text opcodes of protocols 0 and 1, class instances and extension codes are refused.
#include "models/checkpoint/pickle_machine.h"

#include <cstddef>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "base/strings/printable.h"
#include "models/checkpoint/pickle_globals.h"

namespace tandem::pickle {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;  // a real one has about 100 for each tensor
constexpr size_t kMaxValues = size_t{2} << 20;  // also of memorised values, and of marks
constexpr uint64_t kMaxIntegerBytes = 16;

// clang-format off
enum Op : uint8_t {
  kMark = '(', kStop = '.', kPop = '0', kPopMark = '1', kDup = '2', kBinFloat = 'G',
  kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M', kNone = 'N', kBinPersId = 'Q', kReduce = 'R',
  kBinString = 'T', kShortBinString = 'U', kBinUnicode = 'X', kEmptyList = ']', kAppend = 'a',
  kBuild = 'b', kGlobal = 'c', kDict = 'd', kEmptyDict = '}', kAppends = 'e', kBinGet = 'h',
  kLongBinGet = 'j', kList = 'l', kBinPut = 'q', kLongBinPut = 'r', kSetItem = 's', kTuple = 't',
  kEmptyTuple = ')', kSetItems = 'u', kBinBytes = 'B', kShortBinBytes = 'C',
  kProto = 0x80, kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87, kNewTrue = 0x88,
  kNewFalse = 0x89, kLong1 = 0x8a, kLong4 = 0x8b, kShortBinUnicode = 0x8c, kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e, kStackGlobal = 0x93, kMemoize = 0x94, kFrame = 0x95,
};
// clang-format on

class Machine {
 public:
  Machine(std::string_view data, const std::string& where)
      : whole_(data.size()), data_(data.substr(0, kMaxBytes)), where_(where) {}

  Program run() {
    for (;;) {
      op_at_ = at_;
      const uint8_t op = byte();
      if (op == Op::kStop) break;
      step(op);
    }
    program_.result = pop();
    program_.size = at_;
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw invalid_model(where_, "pickle, offset " + std::to_string(op_at_) + ": " + message);
  }

  // --- Reading ---------------------------------------------------------------------------------

  [[noreturn]] void fail_at_end() const {
    if (whole_ == data_.size()) fail("truncated");
    fail("more than " + std::to_string(kMaxBytes) + " bytes, which is all that is read");
  }
  std::string_view take(uint64_t n) {
    if (n > data_.size() - at_) fail_at_end();
    const std::string_view out = data_.substr(at_, static_cast<size_t>(n));
    at_ += static_cast<size_t>(n);
    return out;
  }
  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }
  uint64_t unsigned_int(size_t n) {
    const std::string_view bytes = take(n);
    uint64_t v = 0;
    for (size_t i = n; i-- > 0;) v = v << 8 | static_cast<uint8_t>(bytes[i]);
    return v;
  }
  // Two's complement of n <= 8 bytes.
  int64_t signed_int(uint64_t n) {
    if (n == 0) return 0;
    const uint64_t v = unsigned_int(static_cast<size_t>(n));
    const auto shift = static_cast<unsigned>(64 - 8 * n);
    return static_cast<int64_t>(v << shift) >> shift;
  }
  std::string_view line() {
    const size_t end = data_.find('\n', at_);
    if (end == std::string_view::npos) fail_at_end();
    const std::string_view out = take(end - at_);
    take(1);
    return out;
  }

  // --- The stack -------------------------------------------------------------------------------

  Index make(Value value) {
    if (program_.values.size() == kMaxValues)
      fail("more than " + std::to_string(kMaxValues) + " values");
    program_.values.push_back(std::move(value));
    return static_cast<Index>(program_.values.size() - 1);
  }
  void push(Index value) { stack_.push_back(value); }
  void push(Kind kind, int64_t integer = 0) {
    push(make({.kind = kind, .integer = integer, .text = {}, .items = {}}));
  }
  void push_string(std::string_view text) {
    push(make({.kind = Kind::kString, .text = text, .items = {}}));
  }
  void push_long(uint64_t n) {
    if (n <= 8) return push(Kind::kInt, signed_int(n));
    if (n > kMaxIntegerBytes)
      fail("an integer of " + std::to_string(n) + " bytes, at most " +
           std::to_string(kMaxIntegerBytes) + " are read");
    push(make({.kind = Kind::kInt,
               .integer = std::numeric_limits<int64_t>::min(),
               .text = take(n),
               .items = {}}));
  }
  void push_container(Kind kind, std::vector<Index> items = {}) {
    push(make({.kind = kind, .text = {}, .items = std::move(items)}));
  }

  void mark() {
    if (marks_.size() == kMaxValues) fail("more than " + std::to_string(kMaxValues) + " marks");
    marks_.push_back(stack_.size());
  }
  // Nothing below the innermost mark may be taken.
  void need(size_t n) const {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < n) fail("the stack is empty");
  }
  Index top() const {
    need(1);
    return stack_.back();
  }
  Index pop() {
    const Index value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<Index> pop_last(size_t n) {
    need(n);
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(n);
    std::vector<Index> out(first, stack_.end());
    stack_.erase(first, stack_.end());
    return out;
  }
  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) fail("no mark on the stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> out(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return out;
  }

  // --- Opcodes ---------------------------------------------------------------------------------

  void step(uint8_t op) {
    if (step_scalar(op) || step_container(op) || step_memo(op)) return;
    switch (op) {
      case Op::kProto: {
        const int protocol = byte();
        if (protocol > 5) fail("protocol " + std::to_string(protocol) + " is not known");
        return;
      }
      case Op::kFrame: unsigned_int(8); return;  // a hint for readers of streams
      case Op::kPop: drop(); return;
      case Op::kPopMark: pop_to_mark(); return;
      case Op::kDup: push(top()); return;
      case Op::kGlobal: {
        const std::string_view module = line();
        push_global(module, line());
        return;
      }
      case Op::kStackGlobal: {
        const auto names = pop_last(2);
        const Value &module = program_[names[0]], &name = program_[names[1]];
        if (module.kind != Kind::kString || name.kind != Kind::kString)
          fail("the name of a global is not a string");
        push_global(module.text, name.text);
        return;
      }
      case Op::kReduce: reduce(); return;
      case Op::kBuild: build(); return;
      case Op::kBinPersId: persistent_id(); return;
      default:
        fail("opcode " + printable({reinterpret_cast<const char*>(&op), 1}) +
             " is refused: only tensors in dicts are read, no code is run");
    }
  }

  bool step_scalar(uint8_t op) {
    switch (op) {
      case Op::kNone: push(Kind::kNone); return true;
      case Op::kNewTrue: push(Kind::kBool, 1); return true;
      case Op::kNewFalse: push(Kind::kBool, 0); return true;
      case Op::kBinInt: push(Kind::kInt, signed_int(4)); return true;
      case Op::kBinInt1: push(Kind::kInt, byte()); return true;
      case Op::kBinInt2: push(Kind::kInt, static_cast<int64_t>(unsigned_int(2))); return true;
      case Op::kLong1: push_long(byte()); return true;
      case Op::kLong4: push_long(unsigned_int(4)); return true;
      case Op::kBinFloat: take(8), push(Kind::kFloat); return true;
      case Op::kShortBinString:
      case Op::kShortBinBytes:
      case Op::kShortBinUnicode: push_string(take(byte())); return true;
      case Op::kBinString:
      case Op::kBinBytes:
      case Op::kBinUnicode: push_string(take(unsigned_int(4))); return true;
      case Op::kBinBytes8:
      case Op::kBinUnicode8: push_string(take(unsigned_int(8))); return true;
      default: return false;
    }
  }

  bool step_container(uint8_t op) {
    switch (op) {
      case Op::kMark: mark(); return true;
      case Op::kEmptyTuple: push_container(Kind::kTuple); return true;
      case Op::kTuple1: push_container(Kind::kTuple, pop_last(1)); return true;
      case Op::kTuple2: push_container(Kind::kTuple, pop_last(2)); return true;
      case Op::kTuple3: push_container(Kind::kTuple, pop_last(3)); return true;
      case Op::kTuple: push_container(Kind::kTuple, pop_to_mark()); return true;
      case Op::kEmptyList: push_container(Kind::kList); return true;
      case Op::kList: push_container(Kind::kList, pop_to_mark()); return true;
      case Op::kAppend: extend(Kind::kList, pop_last(1)); return true;
      case Op::kAppends: extend(Kind::kList, pop_to_mark()); return true;
      case Op::kEmptyDict: push_container(Kind::kDict); return true;
      case Op::kDict: push_container(Kind::kDict, pairs(pop_to_mark())); return true;
      case Op::kSetItem: extend(Kind::kDict, pop_last(2)); return true;
      case Op::kSetItems: extend(Kind::kDict, pairs(pop_to_mark())); return true;
      default: return false;
    }
  }

  bool step_memo(uint8_t op) {
    switch (op) {
      case Op::kBinPut: put(byte()); return true;
      case Op::kLongBinPut: put(unsigned_int(4)); return true;
      case Op::kMemoize: put(memo_.size()); return true;
      case Op::kBinGet: get(byte()); return true;
      case Op::kLongBinGet: get(unsigned_int(4)); return true;
      default: return false;
    }
  }

  void put(uint64_t id) {
    if (memo_.size() == kMaxValues)
      fail("more than " + std::to_string(kMaxValues) + " memorised values");
    memo_[id] = top();
  }

  void get(uint64_t id) {
    const auto it = memo_.find(id);
    if (it == memo_.end()) fail("nothing is memorised as " + std::to_string(id));
    push(it->second);
  }

  void drop() {
    if (!marks_.empty() && marks_.back() == stack_.size())
      marks_.pop_back();
    else
      pop();
  }

  std::vector<Index> pairs(std::vector<Index> items) const {
    if (items.size() % 2 != 0) fail("a key without a value");
    return items;
  }

  // Appends to the container on top of the stack.
  void extend(Kind kind, const std::vector<Index>& items) {
    Value& to = program_.values[top()];
    if (to.kind != kind)
      fail(std::string("expected a ") + name_of(kind) + ", found a " + name_of(to.kind));
    to.items.insert(to.items.end(), items.begin(), items.end());
  }

  void push_global(std::string_view module, std::string_view name) {
    Value v{.kind = Kind::kGlobal, .text = name, .items = {}};
    const auto known = find_global(module, name);
    if (!known)
      fail("refuses the global " + printable(module) + "." + printable(name) +
           ": only tensors in dicts are read, no code is run");
    v.global = *known;
    push(make(std::move(v)));
  }

  // callable, arguments → result
  void reduce() {
    const auto call = pop_last(2);
    const Value &callable = program_[call[0]], &arguments = program_[call[1]];
    if (callable.kind != Kind::kGlobal || arguments.kind != Kind::kTuple)
      fail(std::string("refuses to call a ") + name_of(callable.kind));
    apply(callable, arguments.items);
  }

  void apply(const Value& callable, const std::vector<Index>& arguments) {
    const size_t n = arguments.size();
    switch (callable.global) {
      case Global::kOrderedDict:
        // Arguments would be a list of pairs; torch.save() sets the items one by one.
        if (n != 0) fail("OrderedDict with arguments");
        push_container(Kind::kDict);
        return;
      case Global::kRebuildTensor:
        if (n < 4) fail("_rebuild_tensor with " + std::to_string(n) + " arguments");
        push_container(Kind::kTensor, {arguments.begin(), arguments.begin() + 4});
        return;
      case Global::kRebuildTypedTensor: return rebuild_typed(arguments);
      case Global::kRebuildParameter:
        if (n < 1 || program_[arguments[0]].kind != Kind::kTensor)
          fail("_rebuild_parameter without a tensor");
        push(arguments[0]);
        return;
      case Global::kRebuildFromType: return rebuild_from_type(arguments);
      case Global::kSize:
        if (n != 1 || program_[arguments[0]].kind != Kind::kTuple)
          fail("torch.Size without a tuple");
        push(arguments[0]);
        return;
      case Global::kDevice: push(Kind::kNone); return;
      case Global::kStorageType:
      case Global::kType: fail("refuses to call " + std::string(callable.text));
    }
  }

  // (storage, offset, size, stride, requires_grad, hooks, dtype, …)
  void rebuild_typed(const std::vector<Index>& arguments) {
    const bool valid = arguments.size() >= 7 && program_[arguments[6]].kind == Kind::kGlobal &&
                       program_[arguments[6]].global == Global::kType;
    if (!valid) fail("_rebuild_tensor_v3 without a dtype");
    std::vector<Index> items(arguments.begin(), arguments.begin() + 4);
    items.push_back(arguments[6]);
    push_container(Kind::kTensor, std::move(items));
  }

  // (function, class, its arguments, state). Such a call does not nest.
  void rebuild_from_type(const std::vector<Index>& arguments) {
    const bool valid = arguments.size() >= 3 && program_[arguments[0]].kind == Kind::kGlobal &&
                       program_[arguments[0]].global != Global::kRebuildFromType &&
                       program_[arguments[2]].kind == Kind::kTuple;
    if (!valid) fail("_rebuild_from_type_v2 without a function and its arguments");
    const Value function = program_[arguments[0]];
    const std::vector<Index> of_function = program_[arguments[2]].items;
    apply(function, of_function);
  }

  // object, state → object. The attributes of a state_dict (its _metadata) say nothing of tensors.
  void build() {
    pop();
    const Value& object = program_[top()];
    if (object.kind != Kind::kDict)
      fail(std::string("refuses to set attributes of a ") + name_of(object.kind));
  }

  void persistent_id() {
    const Value& id = program_[pop()];
    const bool storage =
        id.kind == Kind::kTuple && (id.items.size() == 5 || id.items.size() == 6) &&
        program_[id.items[0]].kind == Kind::kString && program_[id.items[0]].text == "storage" &&
        program_[id.items[1]].kind == Kind::kGlobal &&
        program_[id.items[1]].global == Global::kStorageType &&
        program_[id.items[2]].kind == Kind::kString && program_[id.items[4]].kind == Kind::kInt;
    if (!storage) fail("a persistent id that is not a storage");
    push_container(Kind::kStorage, id.items);
  }

  size_t whole_;  // bytes that there are, of which data_ has the first ones
  std::string_view data_;
  const std::string& where_;
  size_t at_ = 0, op_at_ = 0;
  Program program_;
  std::vector<Index> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint64_t, Index> memo_;
};

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kNone: return "None";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return "string";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kDict: return "dict";
    case Kind::kGlobal: return "global";
    case Kind::kStorage: return "storage";
    case Kind::kTensor: return "tensor";
  }
  return "?";
}

Program run(std::string_view data, const std::string& where) { return Machine(data, where).run(); }

}  // namespace tandem::pickle
