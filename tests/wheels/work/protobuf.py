"""messages of a descriptor that is built at run time, extensions, JSON, text, Any"""

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf import struct_pb2, text_format, timestamp_pb2
from google.protobuf.internal import api_implementation

FIELD = descriptor_pb2.FieldDescriptorProto


def declare(pool):
    file = descriptor_pb2.FileDescriptorProto(name="work.proto", package="work", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Item")
    for number, (name, kind) in enumerate(
        [("id", FIELD.TYPE_INT64), ("title", FIELD.TYPE_STRING), ("weight", FIELD.TYPE_DOUBLE)], 1
    ):
        message.field.add(name=name, number=number, type=kind, label=FIELD.LABEL_OPTIONAL)
    message.field.add(
        name="when", number=4, type=FIELD.TYPE_MESSAGE, label=FIELD.LABEL_OPTIONAL,
        type_name=".google.protobuf.Timestamp",
    )
    message.field.add(
        name="children", number=5, type=FIELD.TYPE_MESSAGE, label=FIELD.LABEL_REPEATED, type_name=".work.Item"
    )
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("work.Item"))


def work(tell):
    tell("implementation", api_implementation.Type())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    Item = declare(pool)
    item = Item(id=1 << 60, title="größer", weight=0.1)
    item.when.seconds = 1_700_000_000
    for i in range(300):
        item.children.add(id=i, title=str(i) * 3, weight=i / 3).children.add(id=-i)
    data = item.SerializeToString(deterministic=True)
    tell("bytes", data)
    tell("parsed", Item.FromString(data) == item)
    tell("text", text_format.MessageToString(item))
    tell("json", json_format.MessageToJson(Item.FromString(data), descriptor_pool=pool))
    wrapped = any_pb2.Any()
    wrapped.Pack(struct_pb2.Value(list_value=struct_pb2.ListValue(values=[struct_pb2.Value(number_value=2)])))
    tell("any", wrapped.SerializeToString(deterministic=True))
    try:
        Item.FromString(b"\xff\xff\xff")
    except Exception as error:
        tell("error", type(error).__name__)
