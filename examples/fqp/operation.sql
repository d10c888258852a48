-- Najafi 2019, Fig. 4.1.7: the names of customers older than 25, and what they paid.
CREATE STREAM Customer_Stream (Name STRING, Age INT, Price INT);
CREATE STREAM CS_SEL AS SELECT * FROM Customer_Stream WHERE Age > 25;
SELECT Name, Price FROM CS_SEL;
